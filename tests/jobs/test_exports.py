"""Exports of results over stored batches, on both databases and in every format."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pytest

from service.db.engine import Database
from service.errors import ConflictError, InvalidError, MalformedError, NotFoundError
from service.jobs import deletions, export_results, exports, results
from service.jobs.export_documents import ComparisonExportQuery, ComparisonIn, ExportIn, ExportQuery
from service.jobs.result_queries import ResultsQuery
from service.model.results import COLUMNS
from tests.jobs.batch_bodies import ACTOR, SEED, item, speeds, submit
from tests.jobs.completed import complete
from tests.jobs.export_bodies import (
    FORMATS,
    a_profile_with_a_rate,
    priced_batch,
    read_back,
    run,
    written,
)
from tests.reports.export_readers import bits

PLACE = "slow_groups.0.placement"
PIPED: dict[str, Any] = {
    "num_gpus": 4,
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "pipeline": {
        "schedule": "1f1b",
        "stages": 4,
        "microbatches": 8,
        "forward_ms": 1,
        "backward_ms": 2,
    },
}
FLOATS = [column.name for column in COLUMNS if column.kind == "float64"]


def piped(axes: list[dict[str, Any]]) -> dict[str, Any]:
    return item(scenario=PIPED, axes=axes)


def placed(*places: str | int) -> dict[str, Any]:
    return {"path": PLACE, "values": list(places)}


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_holds_the_numbers_of_the_list(database: Database, format_name: str) -> None:
    a_profile_with_a_rate(database)
    batch = priced_batch(database)
    with database.read() as connection:
        listed = results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id)).items
    rows = read_back(database, format=format_name)
    assert len(rows) == len(listed) == 16
    for row, expected in zip(rows, listed, strict=True):
        assert row["batch_id"] == str(batch.id)
        assert (row["custom_id"], row["name"]) == ("slow", "one slow GPU")
        assert row["profile"] == "prod@1"
        assert int(row["point"]) == expected.point
        assert str(row["start_on"]) == "2026-12-01"
        assert int(row["num_gpus"]) == expected.inputs["num_gpus"]
        kind = (expected.inputs["variability.transient"] or {}).get("kind")
        assert (row["variability.transient.kind"] or None) == kind
        assert bits(row["variability.transient.cv"]) == (bits(0.05) if kind else None)
        assert int(row["slow_groups.0.count"]) == 1
        assert row["method"] == expected.result.method
        for name in FLOATS:
            assert bits(row[name]) == bits(getattr(expected.result, name)), name
        assert expected.cost_of_loss is not None
        assert Decimal(row["cost_of_loss"]) == Decimal(expected.cost_of_loss.amount)
        assert (row["currency"], row["cost_status"]) == ("EUR", "priced")


def test_types_are_those_of_the_numbers(database: Database) -> None:
    a_profile_with_a_rate(database)
    priced_batch(database)
    table = pa.ipc.open_stream(written(database, format="arrow")).read_all()
    row = table.to_pylist()[0]
    assert {name: type(row[name]) for name in ("num_gpus", "start_on", "cost_of_loss")} == {
        "num_gpus": int,
        "start_on": date,
        "cost_of_loss": Decimal,
    }
    assert table.schema.field("num_gpus").metadata == {
        b"unit": b"GPUs",
        b"description": b"GPUs held by the job, all paid for.",
    }


def test_a_file_says_where_it_comes_from(database: Database) -> None:
    first = run(database, item())
    run(database, item())
    query: dict[str, Any] = {"batch": first.id, "where": ("num_gpus:ge:1",), "format": "parquet"}
    with database.read() as connection:
        extract = exports.extract(connection, ACTOR, ExportIn(**query))
    assert [(batch.id, batch.pricing) for batch in extract.batches] == [(first.id, 1)]
    stream = pa.ipc.open_stream(written(database, **{**query, "format": "arrow"}))
    facts = {name.decode(): text.decode() for name, text in (stream.schema.metadata or {}).items()}
    assert json.loads(facts["trainard.query"]) == {
        "batch": str(first.id),
        "where": ["num_gpus:ge:1"],
        "format": "arrow",
    }
    assert json.loads(facts["trainard.batches"]) == [str(first.id)]
    assert json.loads(facts["trainard.model_versions"]) == [first.model_version]
    assert facts["trainard.version"] == version("trainard")


@pytest.mark.parametrize("format_name", FORMATS)
def test_filters_are_those_of_the_list(database: Database, format_name: str) -> None:
    a_profile_with_a_rate(database)
    priced_batch(database)
    rows = read_back(
        database,
        format=format_name,
        where=("num_gpus:ge:512", "variability.transient:is_null:true"),
    )
    assert [int(row["num_gpus"]) for row in rows] == [512, 1024]
    assert read_back(database, format=format_name, name="nobody") == []


@pytest.mark.parametrize("format_name", FORMATS)
def test_places_of_slow_gpus_are_said_as_in_the_list(database: Database, format_name: str) -> None:
    run(database, piped([placed("random", "worst", 0, 3)]))
    rows = read_back(database, format=format_name)
    numbers = format_name == "jsonl"
    last = [0, 3] if numbers else ["0", "3"]
    assert [row[PLACE] for row in rows] == ["random", "worst", *last]


def test_places_are_filtered_by_what_is_said(database: Database) -> None:
    run(database, piped([placed("random", "worst", 0, 3)]))
    found = {
        condition: [int(row["point"]) for row in read_back(database, where=(condition,))]
        for condition in (f"{PLACE}:{part}" for part in ("eq:worst", "ne:worst", "eq:3", "eq:1"))
    }
    assert list(found.values()) == [[1], [0, 2, 3], [3], []]


@pytest.mark.parametrize("condition", ["eq:best", "eq:-1", "eq:1.5", "lt:3", "gt:random"])
def test_other_places_are_refused(database: Database, condition: str) -> None:
    with pytest.raises(MalformedError, match="by eq or ne with random, worst or a whole number"):
        read_back(database, where=(f"{PLACE}:{condition}",))


@pytest.mark.parametrize("format_name", FORMATS)
def test_times_of_stages_are_a_column(database: Database, format_name: str) -> None:
    times = [
        {"path": "pipeline.forward_ms", "values": [2, 1.5, [1, 2, 3, 4]]},
        {"path": "pipeline.backward_ms", "values": [4]},
    ]
    run(database, piped(times))
    rows = read_back(database, format=format_name, order_by="pipeline.forward_ms")
    shown = [bits(row["pipeline.forward_ms"]) for row in rows]
    assert shown == [bits(1.5), bits(2.0), None]
    assert [bits(row["pipeline.backward_ms"]) for row in rows] == [bits(4.0)] * 3
    slow = read_back(database, format=format_name, where=("pipeline.forward_ms:gt:1.5",))
    assert [int(row["point"]) for row in slow] == [0]
    lists = read_back(database, format=format_name, where=("pipeline.forward_ms:is_null:true",))
    assert [int(row["point"]) for row in lists] == [2]


@pytest.mark.parametrize("format_name", FORMATS)
def test_points_that_failed_and_days_without_a_rate(database: Database, format_name: str) -> None:
    slow = {**SEED, "slow_groups": [{"count": 70, "speed_fraction": 0.7}]}
    sizes = {"path": "num_gpus", "values": [64, 128]}
    run(database, item(scenario=slow, axes=[sizes]))
    (row,) = read_back(database, format=format_name)
    assert (int(row["num_gpus"]), int(row["slow_groups.0.count"])) == (128, 70)
    assert not row["cost_of_loss"]
    assert not row["currency"]
    assert row["cost_status"] == "no_rate"


@pytest.mark.parametrize("format_name", FORMATS)
def test_batches_without_a_column_have_null_there(database: Database, format_name: str) -> None:
    plain = {name: value for name, value in SEED.items() if name != "slow_groups"}
    run(database, item())
    run(database, item(custom_id="plain", scenario=plain))
    for order in ("", "-num_gpus"):
        rows = read_back(database, format=format_name, order_by=order)
        counts = {row["custom_id"]: row["slow_groups.0.count"] for row in rows}
        assert not counts["plain"]
        assert int(counts["one-slow"]) == 1


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_sorted_export_is_in_the_order_of_the_list(database: Database, format_name: str) -> None:
    a_profile_with_a_rate(database)
    priced_batch(database)
    run(database, item(axes=[speeds(20)]), item(custom_id="other"))
    for order in ("-gpu_hours_lost,num_gpus", "variability.transient,-point", "-cost_of_loss"):
        currency = "EUR" if "cost" in order else None
        query: dict[str, Any] = {"order_by": order, "currency": currency}
        with database.read() as connection:
            listed = results.list_page(connection, ACTOR, ResultsQuery(**query)).items
        rows = read_back(database, format=format_name, **query)
        assert [(row["batch_id"], int(row["point"]), row["custom_id"]) for row in rows] == [
            (str(row.batch_id), row.point, row.custom_id) for row in listed
        ]
        assert [bits(row["gpu_hours_lost"]) for row in rows] == [
            bits(row.result.gpu_hours_lost) for row in listed
        ]
        assert [(row["cost_of_loss"] and Decimal(row["cost_of_loss"])) or None for row in rows] == [
            row.cost_of_loss and Decimal(row.cost_of_loss.amount) for row in listed
        ]


def test_a_sorted_export_ends_with_its_limit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, item(axes=[speeds(20)]))
    monkeypatch.setattr(export_results, "MAX_SORTED_ROWS", 19)
    with pytest.raises(InvalidError, match="more than 19 rows match") as caught:
        written(database, order_by="gpu_hours_lost")
    assert caught.value.problem == "too-many-rows"
    assert len(read_back(database)) == 20
    assert len(read_back(database, order_by="point", where=("point:lt:19",))) == 19


def test_what_cannot_be_exported_is_said_before_the_first_byte(database: Database) -> None:
    batch = submit(database, item())
    with pytest.raises(ConflictError) as caught:
        written(database, batch=batch.id)
    assert caught.value.problem == "batch-not-finished"
    with pytest.raises(NotFoundError):
        written(database, batch=ACTOR.team_id)
    with pytest.raises(MalformedError, match="colour"):
        written(database, order_by="colour")
    with pytest.raises(MalformedError, match="colour"):
        written(database, where=("colour:eq:1",))


def test_one_snapshot_is_written_whatever_happens_meanwhile(database: Database) -> None:
    first = run(database, item(axes=[speeds(3)]))
    question = ExportIn(format="jsonl")
    with database.read() as connection:
        parts = exports.extract(connection, ACTOR, question).written(question)
        second = run(database, item(axes=[speeds(4)]))
        with database.write() as other:
            deletions.delete_batch(other, ACTOR, first.id, expected_version=first.version)
        complete(database)
        rows = [json.loads(line) for line in b"".join(parts).splitlines()]
    assert [row["batch_id"] for row in rows] == [str(first.id)] * 3
    assert [row["batch_id"] for row in read_back(database, format="jsonl")] == [str(second.id)] * 4


def test_a_question_is_a_list_or_a_comparison() -> None:
    ids: dict[str, Any] = {"baseline": ACTOR.team_id, "candidate": ACTOR.team_id}
    both = ExportIn(comparison=ComparisonIn(**ids), num_gpus_min=8)
    with pytest.raises(InvalidError, match="num_gpus_min stands beside comparison") as caught:
        exports.checked(both)
    assert caught.value.errors[0].pointer == "/num_gpus_min"
    beyond = datetime.fromisoformat("9999-12-31T23:59:59-12:00")
    with pytest.raises(InvalidError, match="beyond the calendar") as caught:
        exports.checked(ExportIn(created_before=beyond))
    assert caught.value.errors[0].pointer == "/created_before"
    moment = datetime.fromisoformat("2026-12-01T00:00:00+02:00")
    assert exports.checked(ExportIn(created_after=moment)).created_after == datetime(
        2026, 11, 30, 22, tzinfo=UTC
    )
    assert exports.of_results(ExportQuery(num_gpus_min=8, format="arrow")) == ExportIn(
        num_gpus_min=8, format="arrow"
    )
    assert exports.of_comparison(ComparisonExportQuery(**ids, format="jsonl")) == ExportIn(
        format="jsonl", comparison=ComparisonIn(**ids)
    )
