"""Approval of rates by a second person, and what prices where a team demands it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from threading import Barrier
from typing import Any
from uuid import UUID

import pytest

from service.db.engine import Database
from service.db.rates import RateFilter, RateKey
from service.db.teams import change_team, insert_team
from service.errors import ConflictError, ForbiddenError, NotFoundError, PreconditionFailedError
from service.jobs import repricings, results
from service.jobs.actors import Actor
from service.jobs.rate_approvals import approve_rate
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn, RateOut, ResolutionOut
from service.jobs.rate_resolution import resolve_rate
from service.jobs.rates import create_rate, list_page, rates_for, read_rate
from service.jobs.repricings import RepricingIn
from service.jobs.result_queries import ResultsQuery
from service.jobs.scopes import ROLE_SCOPES
from service.reports.money import Money
from tests.jobs.batch_bodies import SEED
from tests.jobs.export_bodies import run

KEY = RateKey(gpu_type="H100", currency="EUR", cost_center=None)
JANUARY, MARCH, JUNE = date(2027, 1, 1), date(2027, 3, 1), date(2027, 6, 1)


def person(name: str, **changes: Any) -> Actor:
    scopes = changes.pop("scopes", ROLE_SCOPES["finance"])
    return Actor(name=name, principal=f"key:{name}", role="finance", scopes=scopes, **changes)


ANNA, BERT, CARL = person("anna"), person("bert"), person("carl")


def demand_approval(database: Database, *, demanded: bool = True) -> None:
    with database.write() as connection:
        change_team(connection, ANNA.team_id, {"rate_approval_required": demanded})


def record(
    database: Database,
    amount: str = "2.00",
    first: date = JANUARY,
    end: date | None = None,
    center: str | None = None,
) -> RateOut:
    document = RateIn(
        gpu_type="H100",
        cost_center=center,
        price_per_gpu_hour=Money(amount=amount, currency="EUR"),
        valid_from=first,
        valid_until=end,
        source="memo",
    )
    with database.write() as connection:
        return create_rate(connection, ANNA, document)


def correct(database: Database, rate: RateOut, **changes: Any) -> RateOut:
    document = CorrectionIn(reason="wrong", **changes)
    with database.write() as connection:
        return correct_rate(connection, ANNA, rate.id, document, version=rate.version)


def approve(database: Database, rate: RateOut, actor: Actor = BERT) -> RateOut:
    with database.write() as connection:
        return approve_rate(connection, actor, rate.id, version=rate.version)


def read(database: Database, rate: RateOut) -> RateOut:
    with database.read() as connection:
        return read_rate(connection, ANNA, rate.id)


def prices(database: Database, center: str | None = None, **query: Any) -> list[tuple[str, date]]:
    with database.read() as connection:
        found = rates_for(connection, ANNA.team_id, "H100", "EUR", center, **query)
    return [(str(rate.price), rate.valid_from) for rate in found]


def resolved(database: Database, on: date, **query: Any) -> ResolutionOut:
    with database.read() as connection:
        return resolve_rate(connection, ANNA, KEY, on=on, **query)


def test_a_second_person_approves_and_is_named(database: Database) -> None:
    recorded = record(database)
    assert (recorded.approved_by, recorded.approved_at) == (None, None)
    approved = approve(database, recorded)
    assert (approved.approved_by, approved.version) == ("bert", 2)
    assert approved.approved_at is not None
    assert approved.approved_at >= recorded.recorded_at
    assert read(database, recorded) == approved
    # Again, with the version that is stale by now: nothing changes.
    assert approve(database, recorded) == approved


def test_whoever_recorded_a_rate_cannot_approve_it(database: Database) -> None:
    recorded = record(database)
    with pytest.raises(ConflictError, match="anna has recorded the rate") as caught:
        approve(database, recorded, ANNA)
    assert caught.value.problem == "own-rate"
    assert read(database, recorded) == recorded


def test_nobody_approves_while_nobody_is_known(database: Database) -> None:
    recorded = record(database)
    with pytest.raises(ConflictError, match="no API key exists nobody is known") as caught:
        approve(database, recorded, Actor())
    assert caught.value.problem == "own-rate"


def test_approval_needs_a_version_a_team_and_the_sight_of_costs(database: Database) -> None:
    recorded = record(database)
    stranger = person("bert", team_id=UUID(int=7))
    blind = person("bert", scopes=frozenset({"costs:approve"}))
    with database.write() as connection:
        with pytest.raises(PreconditionFailedError, match="has changed"):
            approve_rate(connection, BERT, recorded.id, version=2)
        with pytest.raises(NotFoundError, match=str(recorded.id)):
            approve_rate(connection, stranger, recorded.id, version=1)
        with pytest.raises(ForbiddenError, match="costs:read"):
            approve_rate(connection, blind, recorded.id, version=1)
    assert read(database, recorded) == recorded


def test_what_is_settled_is_not_approved_again(database: Database) -> None:
    first = record(database)
    second = correct(database, first, valid_until=JUNE)
    with pytest.raises(ConflictError, match=f"approve {second.id} instead"):
        approve(database, read(database, first))
    approved = approve(database, second)
    with pytest.raises(ConflictError, match="approved before, by bert"):
        approve(database, approved, CARL)


def test_without_the_demand_a_rate_prices_at_once(database: Database) -> None:
    record(database)
    assert prices(database) == [("2.00", JANUARY)]
    assert resolved(database, MARCH).code == "no_cost_center"


def test_with_the_demand_a_rate_prices_from_its_approval_on(database: Database) -> None:
    demand_approval(database)
    recorded = record(database)
    assert prices(database) == []
    found = resolved(database, MARCH)
    assert (found.rate, found.code) == (None, "no_rate")
    assert f"1 recorded rate(s) of the day wait for approval: {recorded.id}" in found.detail
    (lost,) = found.lost
    assert (lost.rate, lost.code) == (recorded, "awaits_approval")
    assert "recorded by anna and waits for the approval of another person" in lost.detail
    approved = approve(database, recorded)
    assert prices(database) == [("2.00", JANUARY)]
    found = resolved(database, MARCH)
    assert (found.rate, found.lost) == (approved, [])
    # What was known before is still known to have been so.
    assert prices(database, as_of=recorded.recorded_at) == []
    then = resolved(database, MARCH, as_of=recorded.recorded_at)
    assert (then.rate, [part.code for part in then.lost]) == (None, ["awaits_approval"])


def test_an_approved_rate_prices_until_its_correction_is_approved(database: Database) -> None:
    demand_approval(database)
    first = approve(database, record(database))
    second = correct(database, first, price_per_gpu_hour=Money(amount="3.00", currency="EUR"))
    third = correct(database, second, valid_until=JUNE)
    assert prices(database) == [("2.00", JANUARY)]
    found = resolved(database, MARCH)
    assert found.rate is not None
    assert (found.rate.id, found.code) == (first.id, "no_cost_center")
    assert f"its correction {second.id} is not approved yet" in found.detail
    assert [(part.rate.id, part.code) for part in found.lost] == [
        (second.id, "superseded"),
        (third.id, "awaits_approval"),
    ]
    approved = approve(database, third)
    assert prices(database) == [("3.00", JANUARY)]
    assert resolved(database, JUNE).rate is None
    assert resolved(database, MARCH).rate == approved
    assert prices(database, as_of=second.recorded_at) == [("2.00", JANUARY)]


def test_days_that_a_waiting_correction_gives_away_are_not_priced_twice(
    database: Database,
) -> None:
    demand_approval(database)
    first = approve(database, record(database))
    shorter = correct(database, first, valid_until=JUNE)
    later = record(database, "4.00", JUNE)
    with pytest.raises(ConflictError, match="approve those first") as caught:
        approve(database, later)
    assert [(fault.pointer, fault.code) for fault in caught.value.errors] == [
        ("/valid_from", "overlapping_rate")
    ]
    assert str(first.id) in caught.value.errors[0].detail
    approve(database, shorter)
    approve(database, later)
    assert prices(database) == [("2.00", JANUARY), ("4.00", JUNE)]


def test_an_unapproved_rate_of_the_cost_center_does_not_win(database: Database) -> None:
    demand_approval(database)
    general = approve(database, record(database))
    own = record(database, "9.00", center="research")
    assert prices(database, "research") == [("2.00", JANUARY)]
    key = RateKey(gpu_type="H100", currency="EUR", cost_center="research")
    with database.read() as connection:
        found = resolve_rate(connection, ANNA, key, on=MARCH)
    assert (found.rate, found.code) == (general, "no_cost_center")
    assert [(part.rate.id, part.code) for part in found.lost] == [(own.id, "awaits_approval")]
    approve(database, own)
    assert prices(database, "research") == [("9.00", JANUARY), ("2.00", JANUARY)]


def test_the_demand_of_another_team_does_not_matter(database: Database) -> None:
    record(database)
    with database.write() as connection:
        other = insert_team(connection, slug="other", name="Other")
        assert other is not None
        change_team(connection, other, {"rate_approval_required": True})
    assert prices(database) == [("2.00", JANUARY)]
    # And it can be taken back.
    demand_approval(database)
    assert prices(database) == []
    demand_approval(database, demanded=False)
    assert prices(database) == [("2.00", JANUARY)]


def test_batches_are_priced_by_approved_rates_only(database: Database) -> None:
    demand_approval(database)
    early = approve(database, record(database, "2.00", JANUARY, date(2027, 1, 11)))
    late = record(database, "3.00", date(2027, 1, 11))
    batch = run(
        database,
        {"custom_id": "a", "scenario": SEED, "pricing": {"gpu_type": "H100"}},
        start_on="2027-01-01",
        currency="EUR",
    )
    unknown = run(
        database,
        {"custom_id": "b", "scenario": SEED, "pricing": {"gpu_type": "H100"}},
        start_on="2027-03-01",
        currency="EUR",
    )

    def shown(batch_id: Any, pricing: int) -> tuple[str, int | None, list[Any]]:
        with database.read() as connection:
            query = ResultsQuery(batch=batch_id, pricing=pricing)
            (row,) = results.list_page(connection, ANNA, query).items
        return row.cost_status, row.unpriced_days, [rate.id for rate in row.rates]

    assert shown(batch.id, 1) == ("partly_priced", 20, [early.id])
    assert shown(unknown.id, 1) == ("no_rate", 30, [])
    approve(database, late)
    # What a batch was priced with stays; another pricing takes the rates of now.
    assert shown(batch.id, 1) == ("partly_priced", 20, [early.id])
    with database.write() as connection:
        for batch_id in (batch.id, unknown.id):
            repricings.reprice(connection, ANNA, batch_id, RepricingIn())
    assert shown(batch.id, 2) == ("priced", 0, [early.id, late.id])
    assert shown(unknown.id, 2) == ("priced", 0, [late.id])


def test_of_racing_approvers_one_wins(database: Database) -> None:
    recorded = record(database)
    names = [f"approver-{number}" for number in range(8)]
    together = Barrier(len(names))

    def attempt(name: str) -> str | None:
        together.wait()
        try:
            return approve(database, recorded, person(name)).approved_by
        except (ConflictError, PreconditionFailedError):
            return None

    with ThreadPoolExecutor(len(names)) as threads:
        winners = [name for name in threads.map(attempt, names) if name is not None]
    assert winners == [read(database, recorded).approved_by]
    assert read(database, recorded).version == 2


def test_rates_are_listed_by_whether_they_are_approved(database: Database) -> None:
    approved = approve(database, record(database))
    waiting = record(database, center="research")

    def listed(**wanted: Any) -> list[RateOut]:
        with database.read() as connection:
            return list_page(
                connection, ANNA, RateFilter(**wanted), page_size=9, page_token=None
            ).items

    assert listed(approved=True) == [approved]
    assert listed(approved=False) == [waiting]
    assert listed() == [approved, waiting]


def test_another_name_makes_no_other_person(database: Database) -> None:
    """Keys are renamed, and people choose what their issuer calls them."""
    anna = person("anna [0123456789abcdef]")
    renamed = person("somebody else [0123456789abcdef]")
    document = RateIn(
        gpu_type="H100",
        cost_center=None,
        price_per_gpu_hour=Money(amount="2.00", currency="EUR"),
        valid_from=JANUARY,
        valid_until=None,
        source="memo",
    )
    with database.write() as connection:
        rate = create_rate(connection, anna, document)
    with database.write() as connection, pytest.raises(ConflictError, match="another person"):
        approve_rate(connection, renamed, rate.id, version=rate.version)
    spoofed = person("anna [0123456789abcdef] [fedcba9876543210]")
    with database.write() as connection:
        approved = approve_rate(connection, spoofed, rate.id, version=rate.version)
    assert approved.approved_by == spoofed.name
