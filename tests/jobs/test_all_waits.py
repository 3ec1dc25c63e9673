"""Batches of links, overlap and waiting: axes, filters, orders, exports, comparisons."""

from typing import Any

import pytest

from service.db.engine import Database
from service.errors import InvalidError
from service.jobs import batches, comparisons, exports, results
from service.jobs.batch_documents import BatchOut
from service.jobs.comparisons import ComparisonQuery
from service.jobs.export_documents import ExportIn
from service.model.results import ATTRIBUTION_COLUMNS, COLUMNS
from tests.jobs.batch_bodies import ACTOR, LIMITS, rows, run, submit
from tests.reports.export_readers import READERS

LINK = {"latency_us": 10, "bandwidth_gigabytes_per_s": 50}
NODE = {"preset": "nvlink_4_2026_11"}
RING: dict[str, Any] = {"kind": "ring", "parameters": 7e9, "link": LINK}
AUTO: dict[str, Any] = {**RING, "kind": "auto", "intra_link": NODE}
MEASURED: dict[str, Any] = {
    "kind": "measured",
    "message_bytes": 1e6,
    "sizes_bytes": [1e3, 1e9],
    "times_ms": [0.1, 100],
}
FIXED: dict[str, Any] = {"kind": "fixed", "allreduce_ms": 80}
STEP: dict[str, Any] = {"num_gpus": 64, "load_ms": 30, "compute_ms": 300}
BUCKETS: dict[str, Any] = {"kind": "buckets", "num_buckets": 8}
LISTED: dict[str, Any] = {"kind": "buckets", "bucket_shares": [1, 2, 3]}
FSDP: dict[str, Any] = {"kind": "fsdp", "num_layers": 32}
LOCAL: dict[str, Any] = {"kind": "local_steps", "steps": 10, "extra_steps_fraction": 0.02}
STALE: dict[str, Any] = {"kind": "bounded_staleness", "staleness": 2, "delay_ms": 500}
DELAYED: dict[str, Any] = {"kind": "delayed_update"}
NORMAL = {"transient": {"kind": "normal", "cv": 0.05}}


def item(name: str, **changes: Any) -> dict[str, Any]:
    axes = changes.pop("axes", [])
    return {"custom_id": name, "scenario": {**STEP, **changes}, "axes": axes}


ITEMS = (
    item("fixed", communication=FIXED),
    item("ring", communication=RING, overlap=BUCKETS),
    item("auto", communication=AUTO, overlap={"kind": "none", "load_prefetch": True}),
    item("measured", communication=MEASURED, overlap=LISTED),
    item("sharded", communication={**AUTO, "link": {"preset": "roce_100_2026_11"}}, overlap=FSDP),
    item("local", communication=RING, synchronization=LOCAL),
    item("stale", communication=FIXED, synchronization=STALE, variability=NORMAL, draws=16),
    item("delayed", communication=FIXED, synchronization=DELAYED),
)
NAMES = [each["custom_id"] for each in ITEMS]
FILTERED = {
    "communication:eq:ring": ["ring", "local"],
    "communication.kind:ne:fixed": ["ring", "auto", "measured", "sharded", "local"],
    "communication.parameters:eq:7000000000": ["ring", "auto", "sharded", "local"],
    "communication.message_bytes:is_null:false": ["measured"],
    "communication.link.latency_us:eq:10": ["ring", "auto", "local"],
    "communication.link.preset:eq:roce_100_2026_11": ["sharded"],
    "communication.intra_link.preset:eq:nvlink_4_2026_11": ["auto", "sharded"],
    "communication.link.preset:is_null:true": [name for name in NAMES if name != "sharded"],
    "overlap:eq:buckets": ["ring", "measured"],
    "overlap.num_buckets:ge:8": ["ring"],
    "overlap.num_layers:eq:32": ["sharded"],
    "overlap.load_prefetch:eq:true": ["auto"],
    "synchronization:eq:local_steps": ["local"],
    "synchronization.steps:ge:10": ["local"],
    "synchronization.staleness:gt:1": ["stale"],
    "synchronization.delay_ms:eq:500": ["stale"],
    "synchronization.extra_steps_fraction:gt:0": ["local"],
    "backward_fraction:gt:0.6": NAMES,
    "collective_algorithm:eq:measured": ["measured"],
    "method:eq:recursion": ["stale"],
    "break_even_extra_steps_fraction:is_null:false": ["local", "stale", "delayed"],
    "best_num_buckets:is_null:true": ["fixed", "stale", "delayed"],
    "exposed_communication_ms:eq:0": ["stale", "delayed"],
    "gpu_hours_extra_steps:gt:0": ["local"],
}


def run_all(database: Database, **changes: Any) -> BatchOut:
    batch = run(database, *ITEMS, **changes)
    assert (batch.state, batch.points_failed) == ("succeeded", 0)
    return batch


def found(database: Database, *where: str, **query: Any) -> list[str]:
    return [row.custom_id for row in rows(database, where=where, **query)]


def test_every_way_is_stored_and_its_causes_add_up(database: Database) -> None:
    batch = run_all(database)
    for row in rows(database, batch=batch.id):
        parts = sum(getattr(row.result, name) for name in ATTRIBUTION_COLUMNS)
        assert parts == pytest.approx(row.result.gpu_hours_available, rel=1e-9), row.custom_id


def test_new_inputs_and_columns_are_filtered_and_sorted(database: Database) -> None:
    run_all(database)
    assert {where: found(database, where) for where in FILTERED} == FILTERED
    by_kind = found(database, order_by="communication.kind,overlap.kind,synchronization.kind")
    assert by_kind[:3] == ["fixed", "stale", "delayed"]
    assert found(database, order_by="-synchronization.steps")[0] == "local"


def test_all_formats_hold_them(database: Database) -> None:
    batch = run_all(database)
    listed = rows(database, batch=batch.id)
    numbers = [column.name for column in COLUMNS if column.kind == "float64"]
    for file_format, reader in READERS.items():
        asked = ExportIn(format=file_format, batch=batch.id)  # type: ignore[arg-type] # by the test
        with database.read() as connection:
            data = b"".join(exports.extract(connection, ACTOR, asked).written(asked))
        read = reader(data)
        links = [row["communication.intra_link.preset"] or None for row in read]
        presets = {"auto": NODE["preset"], "sharded": NODE["preset"]}
        assert links == [presets.get(name) for name in NAMES]
        assert [row["communication.kind"] for row in read] == [
            each["scenario"]["communication"]["kind"] for each in ITEMS
        ]
        for row, answered in zip(read, listed, strict=True):
            for name in numbers:
                cell = None if row[name] in {None, ""} else float(row[name])
                assert cell == getattr(answered.result, name), (file_format, name)


def test_one_result_says_its_whole_scenario(database: Database) -> None:
    batch = run_all(database)
    for point, each in enumerate(ITEMS):
        with database.read() as connection:
            detail = results.read_one(connection, ACTOR, f"{batch.id}.{point}")
        scenario = detail.provenance.scenario
        for name, document in each["scenario"].items():
            if isinstance(document, dict) and "kind" in document:
                assert scenario[name]["kind"] == document["kind"]
        items = [{"custom_id": "x", "scenario": detail.provenance.reproduce["scenario"]}]
        with database.read() as connection:
            again = batches.check(connection, ACTOR, {"name": "x", "items": items}, LIMITS)
        assert again.points_failing == 0


def ms(row: Any) -> float:
    found: float = row.result.communication_ms
    return found


def test_axes_over_whole_documents_labels_and_pairs(database: Database) -> None:
    whole = item("whole", axes=[{"path": "communication", "values": [FIXED, RING, MEASURED]}])
    preset = {"path": "communication.link.preset", "values": [None, "roce_100_2026_11"]}
    labels = item("labels", communication=RING, axes=[preset])
    pairs = {
        "zip": [
            {"path": "communication.link.latency_us", "values": [0, 10]},
            {"path": "communication.link.bandwidth_gigabytes_per_s", "values": [25, 50]},
        ]
    }
    zipped = item("zipped", communication=RING, axes=[pairs])
    overlaps = item(
        "overlaps",
        communication=AUTO,
        axes=[
            {"path": "overlap", "values": [{"kind": "none"}, BUCKETS, FSDP]},
            {"path": "synchronization", "values": [{"kind": "every_step"}, LOCAL]},
        ],
    )
    batch = run(database, whole, labels, zipped, overlaps)
    by_item: dict[str, list[Any]] = {}
    for row in rows(database, batch=batch.id):
        by_item.setdefault(row.custom_id, []).append(row)
    sent = 2 * 63 / 64 * 14e9
    assert [ms(row) for row in by_item["whole"]] == pytest.approx(
        [80, 1.26 + sent / 50e6, 10 ** (-1 + 3 * 3 / 6)]
    )
    assert by_item["whole"][1].inputs["communication"]["kind"] == "ring"
    assert [row.inputs["communication.link.preset"] for row in by_item["labels"]] == [
        None,
        "roce_100_2026_11",
    ]
    # What is given replaces the preset's own.
    assert [ms(row) for row in by_item["zipped"]] == pytest.approx(
        [sent / 25e6, 1.26 + sent / 50e6]
    )
    # Sharded parameters with local steps break a rule, alone.
    assert len(by_item["overlaps"]) == 5
    assert batch.points_failed == 1
    assert batch.state == "partially_failed"


def test_grids_over_sizes_let_communication_follow(database: Database) -> None:
    sizes = {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 4096}}
    batch = run(database, item("sizes", communication=RING, axes=[sizes]))
    for row in rows(database, batch=batch.id):
        number = row.inputs["num_gpus"]
        expected = 2 * (number - 1) * 0.01 + 2 * (number - 1) / number * 14e9 / 50e6
        assert ms(row) == pytest.approx(expected, rel=1e-12)
        assert row.result.num_data_parallel_ranks == number


def test_a_comparison_tells_what_changed(database: Database) -> None:
    axes = [{"path": "overlap", "values": [{"kind": "none"}, BUCKETS]}]
    faster = {**RING, "link": {**LINK, "bandwidth_gigabytes_per_s": 100}}
    past = run(database, item("same", communication=RING, axes=axes))
    new = run(database, item("same", communication=faster, axes=axes))
    with database.read() as connection:
        query = ComparisonQuery(
            baseline=past.id, candidate=new.id, columns="exposed_communication_ms"
        )
        compared = comparisons.compare(connection, ACTOR, query, page_size=50)
    assert compared.matched == 2
    serial = next(row for row in compared.items if row.key["overlap"]["kind"] == "none")
    sent = 2 * 63 / 64 * 14e9
    assert serial.difference["exposed_communication_ms"] == pytest.approx(-sent / 100e6)


@pytest.mark.parametrize(
    ("axis", "code"),
    [
        ({"path": "communication.link.speed", "values": [1]}, "unknown_path"),
        ({"path": "communication.allreduce_ms", "values": [1]}, "unknown_path"),
        ({"path": "communication.link.preset", "values": ["fast"]}, "not_one_of"),
        (
            {"path": "communication.link.preset", "range": {"start": 0, "stop": 1, "step": 1}},
            "not_numeric",
        ),
        ({"path": "communication.intra_link.latency_us", "values": [1]}, "unknown_path"),
        ({"path": "overlap.num_buckets", "values": [0]}, "unknown_path"),
        ({"path": "communication.link.flows", "values": [0]}, "out_of_range"),
    ],
)
def test_axes_that_cannot_be_are_refused(sqlite_database: Database, axis: Any, code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        submit(sqlite_database, item("x", communication=RING, axes=[axis]))
    faults = {fault.pointer: fault.code for fault in caught.value.errors}
    (pointer,) = faults
    assert pointer.startswith("/items/0/axes/0")
    assert faults[pointer] == code
