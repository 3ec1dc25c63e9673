"""Money, comparisons, history, repricing and exports over stored batches, on both databases."""

import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from service.db.engine import Database
from service.errors import ConflictError, InvalidError, MalformedError, NotFoundError
from service.jobs import batches, comparisons, exports, loss_histories, repricings, results
from service.jobs.actors import Actor
from service.jobs.batch_documents import BatchOut
from service.jobs.comparisons import ComparisonOut, ComparisonQuery
from service.jobs.export_documents import ExportIn
from service.jobs.history_documents import HistoryQuery
from service.jobs.profile_changes import create_profile
from service.jobs.profile_documents import ProfileIn
from service.jobs.rate_documents import RateIn
from service.jobs.rates import create_rate
from service.jobs.repricings import RepricingIn
from service.jobs.result_queries import ResultsQuery
from service.reports.money import Money
from service.settings import Limits
from tests.jobs.completed import complete

NOW = datetime(2026, 12, 31, tzinfo=UTC)

ACTOR = Actor()
SEED: dict[str, Any] = {
    "num_gpus": 1024,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
ONE_SLOW = {"slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
SIZES = {"path": "num_gpus", "values": [64, 1024]}
LOST_1024 = 176008.48806366057  # shared/oracle/barrier.jsonl, barrier-001
NEWLINE_END = "\r\n"


def a_profile(database: Database) -> None:
    with database.write() as connection:
        document = ProfileIn(
            slug="prod", name="Production", gpu_type="H100", cost_center="research", defaults=SEED
        )
        create_profile(connection, ACTOR, document)


def a_rate(database: Database, amount: str, since: str, until: str | None = None) -> None:
    with database.write() as connection:
        create_rate(
            connection,
            ACTOR,
            RateIn(
                gpu_type="H100",
                cost_center="research",
                price_per_gpu_hour=Money(amount=amount, currency="EUR"),
                valid_from=date.fromisoformat(since),
                valid_until=date.fromisoformat(until) if until else None,
                source="example",
            ),
        )


def run(database: Database, *, start_on: str = "2026-12-01", **item: Any) -> BatchOut:
    document = {
        "name": "b",
        "start_on": start_on,
        "currency": "EUR",
        "items": [{"custom_id": "i", "name": "one slow GPU", "profile": "prod", **item}],
    }
    with database.write() as connection:
        batch = batches.submit(connection, ACTOR, document, Limits())
    complete(database)
    with database.read() as connection:
        return batches.get(connection, ACTOR, batch.id)


def compare(database: Database, past: UUID, new: UUID, **query: Any) -> ComparisonOut:
    with database.read() as connection:
        return comparisons.compare(
            connection,
            ACTOR,
            ComparisonQuery(baseline=past, candidate=new, **query),
            page_size=query.get("page_size", 50),
        )


def test_the_loss_is_priced_day_by_day_and_rounded_once(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.10", "2026-10-01", "2026-12-11")
    a_rate(database, "2.40", "2026-12-11")
    batch = run(database, overrides=ONE_SLOW)
    with database.read() as connection:
        (row,) = results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id)).items
    # 10 days at 2.10 and 20 at 2.40, the hours spread evenly.
    exact = Decimal(repr(LOST_1024)) * (Decimal("2.10") * 10 + Decimal("2.40") * 20) / 30
    assert row.cost_of_loss == Money(amount=str(round(exact, 2)), currency="EUR")
    assert row.cost_status == "priced"
    assert [rate.days for rate in row.rates] == [10, 20]


def test_days_without_a_rate_leave_the_cost_null(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.10", "2026-10-01", "2026-12-11")
    batch = run(database, overrides=ONE_SLOW)
    with database.read() as connection:
        (row,) = results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id)).items
    assert (row.cost_of_loss, row.cost_status, row.unpriced_days) == (None, "partly_priced", 20)


def test_volume_and_price_are_told_apart(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00", "2026-12-01", "2027-01-01")
    a_rate(database, "3.00", "2027-01-01")
    slow = run(database, overrides=ONE_SLOW)
    later = run(database, overrides=ONE_SLOW, start_on="2027-01-01")
    fixed = run(database, start_on="2027-01-01")
    dearer = compare(database, slow.id, later.id)
    cost = dearer.items[0].cost_of_loss
    assert cost.volume_effect == Money(amount="0.00", currency="EUR")
    # The difference of the two amounts shown, 528 025.46 and 352 016.98.
    assert cost.price_effect == Money(amount="176008.48", currency="EUR")
    assert dearer.items[0].difference["gpu_hours_lost"] == 0
    both = compare(database, slow.id, fixed.id)
    assert both.items[0].new["gpu_hours_lost"] == 0
    whole = both.summary.cost_of_loss
    assert whole.difference is not None
    assert whole.volume_effect is not None
    assert whole.price_effect is not None
    assert Decimal(whole.volume_effect.amount) + Decimal(whole.price_effect.amount) == Decimal(
        whole.difference.amount
    )
    assert whole.difference.amount == "-352016.98"
    assert both.summary.gpu_hours_lost.difference == pytest.approx(-LOST_1024, rel=1e-9)


def test_points_join_on_the_axes_of_both(database: Database) -> None:
    a_profile(database)
    # A constant on one side, an axis on the other; and a part of the axis of the other.
    grid = run(database, overrides=ONE_SLOW, axes=[SIZES])
    single = run(database, overrides=ONE_SLOW)
    joined = compare(database, grid.id, single.id)
    assert (joined.matched, joined.only_in_baseline, joined.only_in_candidate) == (1, 1, 0)
    assert joined.items[0].key == {"name": "one slow GPU", "profile": "prod", "num_gpus": 1024}
    whole = run(
        database,
        axes=[{"path": "variability.transient", "values": [None, {"kind": "normal", "cv": 0.05}]}],
    )
    part = run(
        database,
        overrides={"variability.transient": {"kind": "normal", "cv": 0.01}},
        axes=[{"path": "variability.transient.cv", "values": [0.01, 0.05]}],
    )
    nested = compare(database, whole.id, part.id)
    assert nested.matched == 1
    assert nested.items[0].key["variability.transient.cv"] == 0.05


def test_pipelines_are_ranked_by_their_bubble_and_named_by_whole_numbers(
    database: Database,
) -> None:
    a_profile(database)
    pipeline = {"schedule": "1f1b", "stages": 8, "microbatches": 8}
    axes = [{"path": "pipeline.microbatches", "values": [8, 64, 16]}]
    past, new = (
        run(database, overrides={"pipeline": {**pipeline, "schedule": schedule}}, axes=axes)
        for schedule in ("1f1b", "zb_h1")
    )
    found = compare(database, past.id, new.id, order_by="-past.bubble_fraction").items
    keys = [row.key["pipeline.microbatches"] for row in found]
    assert keys == [8, 16, 64]
    assert {type(key) for key in keys} == {int}
    for row, number in zip(found, keys, strict=True):
        assert row.past["bubble_fraction"] == pytest.approx(7 / (number + 7), rel=1e-9)
        assert row.past["busy_gpus_mean"] == pytest.approx(1024 * number / (number + 7), rel=1e-9)
        past_ms, new_ms = (side["pipeline_makespan_ms"] for side in (row.past, row.new))
        assert past_ms is not None
        assert new_ms is not None
        assert new_ms < past_ms
    plain = run(database)
    (row,) = compare(database, plain.id, plain.id).items
    assert row.past["bubble_fraction"] is None


def test_a_comparison_is_sorted_and_paged(database: Database) -> None:
    a_profile(database)
    sizes = [2**power for power in range(3, 13)]
    axes = [{"path": "num_gpus", "values": sizes}]
    past = run(database, overrides=ONE_SLOW, axes=axes)
    new = run(database, axes=axes)
    seen: list[int] = []
    token = None
    while True:
        page = compare(
            database,
            past.id,
            new.id,
            order_by="difference.gpu_hours_lost",
            page_size=3,
            page_token=token,
        )
        seen += [row.key["num_gpus"] for row in page.items]
        token = page.next_page_token
        if token is None:
            break
    assert seen == sizes[::-1]
    # Nobody waits any more: all have gained, the largest cluster most.
    largest = compare(database, past.id, new.id, order_by="-magnitude.gpu_hours_lost")
    assert [row.key["num_gpus"] for row in largest.items] == sizes[::-1]
    with pytest.raises(MalformedError):
        compare(database, past.id, new.id, order_by="difference.colour")
    with pytest.raises(MalformedError):
        compare(database, past.id, new.id, columns="colour")


def test_a_key_met_twice_is_named(database: Database) -> None:
    a_profile(database)
    items = [{"custom_id": name, "name": "same", "profile": "prod"} for name in ("first", "second")]
    with database.write() as connection:
        twice = batches.submit(connection, ACTOR, {"name": "b", "items": items}, Limits())
    complete(database)
    with pytest.raises(InvalidError, match="same") as caught:
        compare(database, twice.id, twice.id)
    assert caught.value.problem == "duplicate-key"


def test_the_history_follows_a_scenario_over_its_batches(database: Database) -> None:
    a_profile(database)
    a_rate(database, "1.00", "2026-10-01")
    run(database, overrides=ONE_SLOW)
    run(database)
    run(database, axes=[{"path": "load_ms", "values": [1, 2]}])  # no headline: not in the history
    with database.read() as connection:
        told = loss_histories.history(connection, ACTOR, HistoryQuery(scenario="one slow GPU"), NOW)
        unknown = loss_histories.history(connection, ACTOR, HistoryQuery(scenario="nobody"), NOW)
    assert [round(row.gpu_hours_lost_per_30_days) for row in told.items] == [176_008, 0]
    assert told.items[0].cost_of_loss_per_30_days == Money(amount="176008.49", currency="EUR")
    change = told.items[1].change
    assert change is not None
    assert change.gpu_hours_lost_per_30_days.difference == pytest.approx(-LOST_1024, rel=1e-9)
    assert change.window_overlaps
    assert unknown.items == []


def test_a_repricing_is_another_view_and_the_first_stays(database: Database) -> None:
    a_profile(database)
    batch = run(database, overrides=ONE_SLOW)
    a_rate(database, "2.00", "2026-10-01")
    with database.write() as connection:
        made = repricings.reprice(connection, ACTOR, batch.id, RepricingIn())
    assert (made.pricing, made.items_priced) == (2, 1)
    with database.read() as connection:
        priced = batches.get(connection, ACTOR, batch.id)
    # What was read before is known to be old: the document shows when the newest rates were read.
    assert (priced.version, priced.rates_as_of) == (batch.version + 1, made.rates_as_of)
    with database.read() as connection:
        costs = [
            results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id, pricing=number))
            .items[0]
            .cost_of_loss
            for number in (1, 2)
        ]
        listed = repricings.list_pricings(connection, ACTOR, batch.id)
    assert costs == [None, Money(amount="352016.98", currency="EUR")]
    assert [pricing.items_without_rate for pricing in listed.items] == [1, 0]
    against = compare(database, batch.id, batch.id, candidate_pricing=2)
    assert against.items[0].cost_of_loss.new == Money(amount="352016.98", currency="EUR")
    assert against.items[0].cost_of_loss.status == "no_rate"
    with database.write() as connection, pytest.raises(InvalidError):
        repricings.reprice(connection, ACTOR, batch.id, RepricingIn(currency="XXX"))


def test_an_unfinished_batch_cannot_be_repriced(database: Database) -> None:
    document = {"name": "b", "items": [{"custom_id": "i", "scenario": SEED}]}
    with database.write() as connection:
        batch = batches.submit(connection, ACTOR, document, Limits())
        with pytest.raises(ConflictError):
            repricings.reprice(connection, ACTOR, batch.id, RepricingIn(currency="EUR"))


def test_results_are_sorted_and_filtered_by_cost_only_in_one_currency(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01")
    cheap = run(database, overrides=ONE_SLOW, axes=[SIZES])
    with database.read() as connection:
        with pytest.raises(MalformedError, match="currency="):
            results.list_page(connection, ACTOR, ResultsQuery(order_by="cost_of_loss"))
        page = results.list_page(
            connection,
            ACTOR,
            ResultsQuery(
                order_by="-cost_of_loss", currency="EUR", where=("cost_of_loss:gt:50000",)
            ),
        )
        none = results.list_page(connection, ACTOR, ResultsQuery(currency="USD"))
    assert [row.point for row in page.items] == [1]
    assert page.items[0].batch_id == cheap.id
    assert none.items == []


def exported(database: Database, **query: Any) -> str:
    with database.read() as connection:
        question = ExportIn(**query)
        return b"".join(exports.extract(connection, ACTOR, question).written(question)).decode()


def test_exports_hold_the_same_numbers_as_the_api(database: Database) -> None:
    a_profile(database)
    a_rate(database, "2.00", "2026-10-01")
    axes = [{"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}]
    batch = run(database, name="=cmd()", overrides=ONE_SLOW, axes=axes)
    lines = [json.loads(line) for line in exported(database, format="jsonl").splitlines()]
    table = list(csv.DictReader(io.StringIO(exported(database), newline="")))
    with database.read() as connection:
        rows = results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id)).items
    assert len(lines) == len(table) == len(rows) == 15
    for line, record, row in zip(lines, table, rows, strict=True):
        assert row.cost_of_loss is not None
        assert record["name"] == "'=cmd()"
        assert line["name"] == "=cmd()"
        assert line["num_gpus"] == int(record["num_gpus"]) == row.inputs["num_gpus"]
        assert line["cost_of_loss"] == record["cost_of_loss"] == row.cost_of_loss.amount
        for name in ("gpu_hours_lost", "step_p99_ms", "efficiency_fraction"):
            assert line[name] == float(record[name]) == getattr(row.result, name)
    filtered = exported(database, where=("num_gpus:ge:65536",))
    assert filtered.count(NEWLINE_END) == 3


KINDS: list[Any] = [None, {"kind": "normal", "cv": 0.05}, {"kind": "gamma", "cv": 0.05}]


def test_points_of_a_structured_axis_can_be_told_apart_found_and_sorted(
    database: Database,
) -> None:
    a_profile(database)
    axes = [{"path": "variability.transient", "values": KINDS}]
    run(database, overrides=ONE_SLOW, axes=axes)
    table = list(csv.DictReader(io.StringIO(exported(database), newline="")))
    assert [row["variability.transient.kind"] for row in table] == ["", "normal", "gamma"]
    assert [row["variability.transient.cv"] for row in table] == ["", "0.05", "0.05"]
    # Whole numbers stay whole, also where a batch has null in the column.
    assert [row["slow_groups.0.count"] for row in table] == ["1", "1", "1"]

    def points(**query: Any) -> list[int]:
        with database.read() as connection:
            page = results.list_page(connection, ACTOR, ResultsQuery(**query))
        return [row.point for row in page.items]

    assert points(where=("variability.transient:is_null:true",)) == [0]
    assert points(where=("variability.transient.kind:eq:gamma",)) == [2]
    assert points(where=("variability.transient:ne:gamma",)) == [1]
    assert points(order_by="-variability.transient") == [2, 1, 0]


def test_a_cost_filter_is_about_the_amount_shown(database: Database) -> None:
    a_profile(database)
    a_rate(database, "1.875", "2026-10-01")
    run(database, overrides=ONE_SLOW)
    shown = "330015.92"  # 176008.48806366057 at 1.875 is 330015.91512
    with database.read() as connection:
        for operator in ("eq", "le", "ge"):
            query = ResultsQuery(currency="EUR", where=(f"cost_of_loss:{operator}:{shown}",))
            (row,) = results.list_page(connection, ACTOR, query).items
            assert row.cost_of_loss == Money(amount=shown, currency="EUR")
        above = ResultsQuery(currency="EUR", where=(f"cost_of_loss:gt:{shown}",))
        assert results.list_page(connection, ACTOR, above).items == []


def test_a_pricing_that_was_never_made_is_not_there(database: Database) -> None:
    a_profile(database)
    batch = run(database)
    with database.read() as connection, pytest.raises(NotFoundError, match="no pricing 9"):
        results.list_page(connection, ACTOR, ResultsQuery(batch=batch.id, pricing=9))
    with pytest.raises(NotFoundError, match="no pricing 9"):
        compare(database, batch.id, batch.id, baseline_pricing=9)


def test_windows_of_unlike_length_are_said(database: Database) -> None:
    a_profile(database)
    long = run(database, overrides=ONE_SLOW)
    short = run(database, overrides={**ONE_SLOW, "period_days": 10})
    (warning,) = compare(database, long.id, short.id).warnings
    assert warning.code == "window_changed"
    assert "30 in the baseline and 10 in the candidate" in warning.detail
    assert compare(database, long.id, long.id).warnings == []


def test_a_history_says_how_many_items_it_cannot_show(database: Database) -> None:
    a_profile(database)
    run(database, axes=[{"path": "load_ms", "values": [1, 2]}])
    with database.read() as connection:
        told = loss_histories.history(connection, ACTOR, HistoryQuery(scenario="one slow GPU"), NOW)
        unknown = loss_histories.history(connection, ACTOR, HistoryQuery(scenario="nobody"), NOW)
    assert (told.items, told.without_headline) == ([], 1)
    assert unknown.without_headline == 0
