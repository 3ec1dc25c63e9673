"""A batch with all sources of variability: stored, filtered, sorted, exported, compared, listed."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from service.db.engine import Database
from service.errors import MalformedError
from service.jobs import comparisons, exports, loss_histories, results
from service.jobs.batch_documents import BatchOut
from service.jobs.comparisons import ComparisonQuery
from service.jobs.export_documents import ExportIn
from service.jobs.history_documents import HistoryQuery
from service.jobs.result_documents import ResultOut
from service.jobs.result_queries import ResultsQuery
from service.jobs.stored_inputs import defaults_beside, is_stored_input
from service.model.inputs import INPUT_LABELS
from service.model.leaves import leaves
from service.model.results import ATTRIBUTION_COLUMNS, COLUMN_NAMES, COLUMNS
from service.reports.sampling import ERROR_OF
from tests.jobs.batch_bodies import ACTOR, rows, run
from tests.reports.export_readers import READERS

NOW = datetime(2026, 12, 31, tzinfo=UTC)

LOST = "gpu_hours_lost"
PLAIN: dict[str, Any] = {"num_gpus": 64, "load_ms": 30, "compute_ms": 300}
TRANSIENT = {"transient": {"kind": "normal", "cv": 0.05}}
SAMPLED: dict[str, Any] = {
    **PLAIN,
    "draws": 64,
    "variability": {**TRANSIENT, "persistent": {"kind": "lognormal", "cv": 0.03}},
    "gpus_per_node": 4,
    "total_steps": 1_000_000,
    "failures": {
        "failures_per_1000_node_days": 2,
        "restart_s": 300,
        "checkpoint_write_s": 20,
        "checkpoint_interval_s": 3600,
        "asynchronous_checkpoint": True,
    },
}
BACKUP: dict[str, Any] = {
    **PLAIN,
    "variability": {**TRANSIENT, "spikes": {"probability": 0.001, "slowdown": 3}},
    "synchronization": {"kind": "backup_workers", "count": 2},
    "scaling": {"kind": "strong", "reference_num_gpus": 64},
}


FILTERED = {
    "variability.persistent.cv:eq:0.03": ["sampled"],
    "variability.persistent.kind:eq:lognormal": ["sampled"],
    "variability.persistent:eq:lognormal": ["sampled"],
    "variability.persistent:is_null:true": ["plain", "backup"],
    "variability.transient.kind:ne:gamma": ["sampled", "backup"],
    "variability.spikes:is_null:false": ["backup"],
    "variability.spikes.slowdown:ge:3": ["backup"],
    "variability.episodes:is_null:true": ["plain", "sampled", "backup"],
    "variability.autocorrelation:eq:0": ["plain", "sampled", "backup"],
    "gpus_per_node:eq:8": ["plain", "backup"],
    "gpus_per_node:lt:8": ["sampled"],
    "tensor_parallel_size:eq:1": ["plain", "sampled", "backup"],
    "synchronization:eq:backup_workers": ["backup"],
    "synchronization.kind:eq:every_step": ["plain", "sampled"],
    "synchronization.count:eq:2": ["backup"],
    "scaling:eq:strong": ["backup"],
    "scaling.kind:ne:strong": ["plain", "sampled"],
    "scaling.reference_num_gpus:is_null:true": ["plain", "sampled"],
    "failures:is_null:false": ["sampled"],
    "failures.restart_s:gt:0": ["sampled"],
    "failures.asynchronous_checkpoint:eq:true": ["sampled"],
    "failures.asynchronous_checkpoint:is_null:true": ["plain", "backup"],
    "total_steps:ge:1000000": ["sampled"],
    "num_spare_gpus:eq:0": ["plain", "sampled", "backup"],
    "num_evicted_gpus:gt:0": [],
    "spread_method:eq:monte_carlo": ["sampled"],
    "is_extrapolated:eq:false": ["plain", "sampled", "backup"],
    "is_extrapolated:eq:true": [],
    "is_extrapolated:ne:true": ["plain", "sampled", "backup"],
    "days_to_finish:is_null:true": ["plain", "backup"],
    "gpu_hours_persistent:gt:0": ["sampled"],
    "gpu_hours_lost_p90_se:gt:0": ["sampled"],
}


SORTED = {
    "-gpus_per_node,-gpu_hours_lost": ["backup", "plain", "sampled"],
    "variability.persistent.cv,num_gpus,-point": ["sampled", "backup", "plain"],
    "-gpu_hours_lost_sd,point": ["sampled", "backup", "plain"],
    "-synchronization,point": ["backup", "plain", "sampled"],
}


def item(name: str, scenario: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"custom_id": name, "scenario": scenario, **changes}


def run_three(database: Database, **changes: Any) -> BatchOut:
    items = (item("plain", PLAIN), item("sampled", SAMPLED), item("backup", BACKUP))
    batch = run(database, *items, **changes)
    assert batch.state == "succeeded"
    return batch


def found(database: Database, *where: str, **query: Any) -> list[str]:
    return [row.custom_id for row in rows(database, where=where, **query)]


def shown(row: ResultOut) -> dict[str, Any]:
    return {name: getattr(row.result, name) for name in COLUMN_NAMES}


def test_every_column_is_answered_by_its_kind(database: Database) -> None:
    batch = run_three(database)
    plain, sampled, backup = (shown(row) for row in rows(database, batch=batch.id))
    kinds: dict[str, tuple[type, ...]] = {
        "float64": (float, int),
        "int64": (int,),
        "bool": (bool,),
        "enum": (str,),
    }
    for row in (plain, sampled, backup):
        for column in COLUMNS:
            value = row[column.name]
            assert value is None or type(value) in kinds[column.kind], column.name
        assert sum(row[name] for name in ATTRIBUTION_COLUMNS) == pytest.approx(
            row["gpu_hours_available"], rel=1e-12
        )
    assert (plain["method"], plain["spread_method"]) == ("closed_form", "closed_form")
    assert sampled["spread_method"] == "monte_carlo"
    assert sampled["gpu_hours_lost_p10"] < sampled["gpu_hours_lost_p90"]
    assert sampled["gpu_hours_lost_p90_se"] > 0 == plain["gpu_hours_lost_p90_se"]
    assert (plain["days_to_finish"], plain["checkpoint_interval_s"]) == (None, None)
    assert sampled["days_to_finish"] > 0
    assert sampled["checkpoint_interval_s"] == 3600
    assert sampled["gpu_hours_failures"] > 0 == plain["gpu_hours_failures"]


def test_every_new_input_and_column_is_filtered_and_sorted(database: Database) -> None:
    run_three(database)
    assert {where: found(database, where) for where in FILTERED} == FILTERED
    assert {order: found(database, order_by=order) for order in SORTED} == SORTED


@pytest.mark.parametrize(
    "where",
    [
        "is_extrapolated:gt:false",
        "is_extrapolated:eq:1",
        "synchronization.kind:eq:sometimes",
        "failures.asynchronous_checkpoint:lt:true",
        "seed:eq:0",
        "draws:eq:64",
        "variability:is_null:true",
        "slow_groups.count:eq:1",
        "variability.persistent.speed:eq:1",
    ],
)
def test_what_cannot_be_filtered_is_refused(sqlite_database: Database, where: str) -> None:
    with sqlite_database.read() as connection, pytest.raises(MalformedError):
        results.list_page(connection, ACTOR, ResultsQuery(where=(where,)))


def test_a_document_without_a_kind_has_no_order(sqlite_database: Database) -> None:
    with pytest.raises(MalformedError, match="failures"):
        found(sqlite_database, order_by="failures")


def test_defaults_are_those_of_the_fields() -> None:
    assert defaults_beside(["gpus_per_node"]) == {
        "backward_fraction": 2 / 3,
        "communication.kind": INPUT_LABELS["communication.kind"].index("fixed"),
        "overlap.kind": INPUT_LABELS["overlap.kind"].index("none"),
        "variability.autocorrelation": 0.0,
        "tensor_parallel_size": 1.0,
        "scaling.kind": INPUT_LABELS["scaling.kind"].index("weak"),
        "synchronization.kind": INPUT_LABELS["synchronization.kind"].index("every_step"),
        "num_spare_gpus": 0.0,
        "num_evicted_gpus": 0.0,
    }
    for path, leaf in leaves().items():
        one_number = path in {"pipeline.forward_ms", "pipeline.backward_ms"}
        stored = not leaf.in_list and leaf.dtype != "object" and path not in {"seed", "draws"}
        stored |= one_number
        assert is_stored_input(path) is stored, path
    assert is_stored_input("slow_groups.0.count")
    assert not is_stored_input("slow_groups.0")


def _number(file_format: str, kind: str, cell: Any) -> Any:
    """A cell as it was read by somebody else's reader, made comparable."""
    if cell is None or (file_format == "csv" and cell == ""):
        return None
    if kind == "bool":
        return cell in {True, "true"}
    return cell if kind == "enum" else float(cell)


@pytest.mark.parametrize("order", ["", "-gpu_hours_lost"])
def test_all_formats_hold_the_numbers_of_the_list(database: Database, order: str) -> None:
    batch = run_three(database)
    listed = rows(database, batch=batch.id, order_by=order)
    for file_format, reader in READERS.items():
        asked = ExportIn(format=file_format, batch=batch.id, order_by=order)  # type: ignore[arg-type] # by the test
        with database.read() as connection:
            data = b"".join(exports.extract(connection, ACTOR, asked).written(asked))
        exported = reader(data)
        assert [row["custom_id"] for row in exported] == [row.custom_id for row in listed]
        for row, answered in zip(exported, map(shown, listed), strict=True):
            for column in COLUMNS:
                cell = _number(file_format, column.kind, row[column.name])
                assert cell == answered[column.name], (file_format, column.name)
        nodes = {row["custom_id"]: str(row["gpus_per_node"]) for row in exported}
        assert nodes == {"plain": "8", "sampled": "4", "backup": "8"}


def test_an_export_of_many_batches_tells_what_one_left_out(database: Database) -> None:
    run(database, item("plain", PLAIN))
    run(database, item("backup", BACKUP))
    for order in ("", "synchronization.kind"):
        asked = ExportIn(format="jsonl", order_by=order)
        with database.read() as connection:
            data = b"".join(exports.extract(connection, ACTOR, asked).written(asked))
        kinds = {row["custom_id"]: row["synchronization.kind"] for row in READERS["jsonl"](data)}
        assert kinds == {"plain": "every_step", "backup": "backup_workers"}


def compared(database: Database, past: UUID, new: UUID, **query: Any) -> Any:
    with database.read() as connection:
        asked = ComparisonQuery(baseline=past, candidate=new, **query)
        return comparisons.compare(connection, ACTOR, asked, page_size=50)


def test_a_comparison_has_the_new_causes_and_their_errors(database: Database) -> None:
    sampled = [
        run(database, item("same", {**SAMPLED, "seed": seed}), reuse=False) for seed in (1, 1, 2)
    ]
    again = compared(database, sampled[0].id, sampled[1].id, columns="gpu_hours_lost_cluster_mean")
    other = compared(database, sampled[0].id, sampled[2].id, columns="gpu_hours_lost_cluster_mean")
    (row,) = again.items
    assert row.sampling == "common_seed"
    nothing = {name for name, value in row.difference.items() if value is None}
    assert nothing == {"pipeline_makespan_ms", "bubble_fraction", "busy_gpus_mean"}
    assert set(row.difference.values()) == {0, None}
    errors = {name: error.difference for name, error in row.standard_error.items()}
    assert errors.pop("pipeline_makespan_ms") is None
    assert set(errors.values()) == {0}
    (row,) = other.items
    assert row.sampling == "independent"
    assert set(row.difference) >= set(ATTRIBUTION_COLUMNS)
    assert set(row.standard_error) == {
        LOST,
        "gpu_hours_lost_p10",
        "gpu_hours_lost_p90",
        "gpu_hours_lost_cluster_mean",
        "pipeline_makespan_ms",
    } & set(ERROR_OF)
    # Two samples of the same: within five standard errors of each other.
    for name in ("gpu_hours_lost_p90", "gpu_hours_lost_cluster_mean"):
        error = row.standard_error[name]
        assert error.difference == pytest.approx((error.past**2 + error.new**2) ** 0.5)
        assert 0 < abs(row.difference[name]) < 5 * error.difference
    # What is integrated does not depend on the seed.
    assert row.difference["gpu_hours_persistent"] == 0


def test_errors_are_no_columns_to_compare(database: Database) -> None:
    batch = run(database, item("plain", PLAIN))
    with pytest.raises(MalformedError, match="gpu_hours_lost_se"):
        compared(database, batch.id, batch.id, columns="gpu_hours_lost_se")


def test_the_history_has_the_spread(database: Database) -> None:
    for seed in (1, 2):
        run(database, item("nightly", {**SAMPLED, "seed": 2**53 - seed}))
    with database.read() as connection:
        first, second = loss_histories.history(
            connection, ACTOR, HistoryQuery(scenario="nightly"), NOW
        ).items
    batch_rows = rows(database, where=("num_gpus:eq:64",), order_by="point")
    spread = {row.id: shown(row) for row in batch_rows}
    for run_of in (first, second):
        expected = spread[run_of.result_id]
        assert run_of.gpu_hours_lost_p10 == expected["gpu_hours_lost_p10"]
        assert run_of.gpu_hours_lost_p50 == expected["gpu_hours_lost_p50"]
        assert run_of.gpu_hours_lost_p90 == expected["gpu_hours_lost_p90"]
        assert run_of.gpu_hours_lost_se == expected["gpu_hours_lost_se"]
    assert second.change is not None
    assert second.change.gpu_hours_lost_per_30_days.difference == 0
