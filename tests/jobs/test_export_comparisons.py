"""Exports of comparisons against the comparison itself, on both databases, in every format."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from service.db.engine import Database
from service.errors import ConflictError, InvalidError, MalformedError, NotFoundError
from service.jobs import comparisons
from service.jobs.comparisons import ComparisonQuery
from service.jobs.export_documents import ComparisonIn
from service.reports.compare import ComparisonRow
from service.reports.money import Money
from tests.jobs.batch_bodies import ACTOR, item, submit
from tests.jobs.export_bodies import (
    FORMATS,
    a_profile_with_a_rate,
    priced_batch,
    read_back,
    run,
)
from tests.reports.export_readers import bits


def compared(database: Database, past: UUID, new: UUID, **query: Any) -> list[ComparisonRow]:
    with database.read() as connection:
        asked = ComparisonQuery(baseline=past, candidate=new, **query)
        return comparisons.compare(connection, ACTOR, asked, page_size=1000).items


def amount(money: Money | None) -> Decimal | None:
    return None if money is None else Decimal(money.amount)


def decimal(text: Any) -> Decimal | None:
    return None if text in {None, ""} else Decimal(text)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("order", ["", "-difference.gpu_hours_lost"])
def test_every_format_holds_the_numbers_of_the_comparison(
    database: Database, format_name: str, order: str
) -> None:
    a_profile_with_a_rate(database)
    past = priced_batch(database)
    new = priced_batch(database, overrides={"slow_groups": [], "load_ms": 20})
    query: dict[str, Any] = {"order_by": order, "columns": "step_p99_ms"}
    expected = compared(database, past.id, new.id, **query)
    rows = read_back(
        database,
        format=format_name,
        comparison=ComparisonIn(baseline=past.id, candidate=new.id, **query),
    )
    assert len(rows) == len(expected) == 16
    assert len({row["difference.gpu_hours_lost"] for row in rows}) > 8
    for row, told in zip(rows, expected, strict=True):
        assert (row["name"], row["profile"]) == (told.key["name"], told.key["profile"])
        assert int(row["num_gpus"]) == told.key["num_gpus"]
        structure = told.key["variability.transient"]
        assert (row["variability.transient"] or None) == (
            '{"kind":"normal","cv":0.05}' if structure else None
        )
        assert (int(row["past_point"]), int(row["new_point"])) == (told.past_point, told.new_point)
        for part in ("past", "new", "difference", "relative"):
            for column, number in getattr(told, part).items():
                assert bits(row[f"{part}.{column}"]) == bits(number), (part, column)
        assert "past.step_p99_ms" in row
        assert str(row["ideal_changed"]).lower() == "true"
        assert told.ideal_changed
        split = told.lost_split
        assert split is not None
        assert bits(row["lost_split.gpu_hours_ideal"]) == bits(split.gpu_hours_ideal)
        cost = told.cost_of_loss
        for part in ("past", "new", "difference", "volume_effect", "price_effect"):
            shown = amount(getattr(cost, part))
            assert shown is not None
            assert decimal(row[f"{part}.cost_of_loss"]) == shown
        assert bits(row["relative.cost_of_loss"]) == bits(cost.relative)
        assert (row["past.currency"], row["new.currency"]) == ("EUR", "EUR")
        assert (row["cost_status"], row["past.cost_status"]) == ("priced", "priced")


@pytest.mark.parametrize("format_name", FORMATS)
def test_points_without_a_price_say_why(database: Database, format_name: str) -> None:
    a_profile_with_a_rate(database)
    priced = priced_batch(database)
    plain = run(
        database,
        {
            "custom_id": "slow",
            "name": "one slow GPU",
            "profile": "prod",
            "axes": [{"path": "num_gpus", "values": [64, 1024]}],
        },
    )
    for past, new in ((priced, plain), (plain, priced), (plain, plain)):
        expected = compared(database, past.id, new.id)
        rows = read_back(
            database,
            format=format_name,
            comparison=ComparisonIn(baseline=past.id, candidate=new.id),
        )
        assert len(rows) == len(expected) == 2
        for row, told in zip(rows, expected, strict=True):
            cost = told.cost_of_loss
            assert row["cost_status"] == cost.status == "no_rate"
            assert row["past.cost_status"] == cost.past_status
            assert row["new.cost_status"] == cost.new_status
            assert decimal(row["past.cost_of_loss"]) == amount(cost.past)
            assert decimal(row["new.cost_of_loss"]) == amount(cost.new)
            assert decimal(row["difference.cost_of_loss"]) is None
            assert bits(row["lost_split.gpu_hours_ideal"]) is None


@pytest.mark.parametrize("format_name", FORMATS)
def test_nothing_in_common_is_an_empty_file(database: Database, format_name: str) -> None:
    past, new = run(database, item(name="a")), run(database, item(name="b"))
    comparison = ComparisonIn(baseline=past.id, candidate=new.id)
    assert read_back(database, format=format_name, comparison=comparison) == []


def test_what_cannot_be_compared_is_said_before_the_first_byte(database: Database) -> None:
    ended = run(database, item())
    twice = run(database, item(name="same"), item(custom_id="b", name="same"))
    waiting = submit(database, item())

    def export(**query: Any) -> None:
        asked = {"baseline": ended.id, "candidate": ended.id, **query}
        read_back(database, comparison=ComparisonIn(**asked))

    with pytest.raises(NotFoundError):
        export(candidate=ACTOR.team_id)
    with pytest.raises(ConflictError):
        export(candidate=waiting.id)
    with pytest.raises(NotFoundError, match="no pricing 9"):
        export(candidate_pricing=9)
    with pytest.raises(MalformedError, match="colour"):
        export(columns="colour")
    with pytest.raises(MalformedError, match="colour"):
        export(order_by="difference.colour")
    with pytest.raises(InvalidError, match="same key"):
        export(baseline=twice.id, candidate=twice.id)
