"""Recording, correcting and resolving dated rates, on both databases."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from service.db.engine import Database
from service.db.rates import RateFilter, RateKey
from service.errors import (
    ConflictError,
    InvalidError,
    MalformedError,
    NotFoundError,
    PreconditionFailedError,
)
from service.jobs.actors import Actor
from service.jobs.page_tokens import make_token
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn, RateOut
from service.jobs.rate_resolution import resolve_rate
from service.jobs.rates import create_rate, list_page, rates_for, read_rate
from service.reports.money import Money
from service.reports.pricing import price_days

ACTOR = Actor(name="finance")
TEAM = ACTOR.team_id
EVERY_RATE = RateFilter()


def eur(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def rate(
    first: str, end: str | None = None, *, center: str | None = None, amount: str = "2.10"
) -> RateIn:
    return RateIn(
        gpu_type="H100-SXM",
        cost_center=center,
        price_per_gpu_hour=eur(amount),
        valid_from=date.fromisoformat(first),
        valid_until=None if end is None else date.fromisoformat(end),
        source="memo",
    )


def record(database: Database, document: RateIn) -> RateOut:
    with database.write() as connection:
        return create_rate(connection, ACTOR, document)


def correct(database: Database, old: RateOut, document: CorrectionIn) -> RateOut:
    with database.write() as connection:
        return correct_rate(connection, ACTOR, old.id, document, version=old.version)


def read(database: Database, rate_id: UUID) -> RateOut:
    with database.read() as connection:
        return read_rate(connection, ACTOR, rate_id)


def all_rates(database: Database, *, superseded: bool = False) -> list[RateOut]:
    wanted = RateFilter(include_superseded=superseded)
    with database.read() as connection:
        return list_page(connection, ACTOR, wanted, page_size=1000, page_token=None).items


def test_a_rate_keeps_its_digits_and_its_author(database: Database) -> None:
    written = record(database, rate("2026-10-01"))
    assert read(database, written.id) == written
    assert written.price_per_gpu_hour == eur("2.10")
    assert (written.recorded_by, written.version, written.superseded_by) == ("finance", 1, None)
    with database.read() as connection:
        known = rates_for(connection, TEAM, "H100-SXM", "EUR", None)
    assert [(line.price, line.valid_from) for line in known] == [
        (Decimal("2.10"), date(2026, 10, 1))
    ]
    assert str(known[0].price) == "2.10"


def test_a_rate_of_another_team_does_not_exist(database: Database) -> None:
    written = record(database, rate("2026-10-01"))
    stranger = Actor(team_id=UUID(int=7))
    with database.read() as connection, pytest.raises(NotFoundError, match=str(written.id)):
        read_rate(connection, stranger, written.id)
    with database.read() as connection:
        page = list_page(connection, stranger, EVERY_RATE, page_size=9, page_token=None)
        assert rates_for(connection, stranger.team_id, "H100-SXM", "EUR", None) == []
    assert page.items == []


def test_every_fault_of_a_rate_is_named(database: Database) -> None:
    bad = RateIn(
        gpu_type=" H100",
        cost_center="a\nb",
        price_per_gpu_hour=Money(amount="0.00", currency="EUR"),
        valid_from=date(2026, 2, 1),
        valid_until=date(2026, 2, 1),
        source="memo",
    )
    with pytest.raises(InvalidError, match="4 fields") as caught:
        record(database, bad)
    assert [(fault.pointer, fault.code) for fault in caught.value.errors] == [
        ("/gpu_type", "malformed_label"),
        ("/cost_center", "malformed_label"),
        ("/price_per_gpu_hour/amount", "not_positive"),
        ("/valid_until", "empty_validity"),
    ]
    assert all_rates(database) == []


@pytest.mark.parametrize(
    ("price", "code"),
    [
        (Money(amount="-1", currency="EUR"), "malformed_amount"),
        (Money(amount="1234567890123", currency="EUR"), "malformed_amount"),
        (Money(amount="1", currency="XXQ"), "unknown_currency"),
        (Money(amount="1", currency="XAU"), "not_monetary"),
    ],
)
def test_a_price_is_plain_money(sqlite_database: Database, price: Money, code: str) -> None:
    with pytest.raises(InvalidError) as caught:
        record(
            sqlite_database,
            msgspec.structs.replace(rate("2026-01-01"), price_per_gpu_hour=price),
        )
    assert [fault.code for fault in caught.value.errors] == [code]


def test_no_rate_starts_on_the_last_day_of_the_calendar(sqlite_database: Database) -> None:
    with pytest.raises(InvalidError, match="before 9999-12-31"):
        record(sqlite_database, rate("9999-12-31"))


def test_an_overlap_names_every_rate_in_the_way(database: Database) -> None:
    first = record(database, rate("2026-01-01", "2026-04-01"))
    second = record(database, rate("2026-04-01", "2026-07-01"))
    record(database, rate("2026-07-01"))
    with pytest.raises(ConflictError, match="2 other rate") as caught:
        record(database, rate("2026-03-31", "2026-07-01"))
    told = [fault.detail for fault in caught.value.errors]
    assert str(first.id) in told[0]
    assert "[2026-01-01, 2026-04-01)" in told[0]
    assert str(second.id) in told[1]
    assert len(told) == 2
    assert len(all_rates(database)) == 3


def test_other_keys_are_no_overlap(database: Database) -> None:
    record(database, rate("2026-01-01"))
    record(database, rate("2026-01-01", center="research"))
    dollars = Money(amount="2", currency="USD")
    record(database, msgspec.structs.replace(rate("2026-01-01"), price_per_gpu_hour=dollars))
    record(database, msgspec.structs.replace(rate("2026-01-01"), gpu_type="A100"))
    assert len(all_rates(database)) == 4


def test_a_correction_keeps_the_old_row(database: Database) -> None:
    old = record(database, rate("2026-01-01", "2027-01-01"))
    before = datetime.now(UTC)
    new = correct(database, old, CorrectionIn(price_per_gpu_hour=eur("2.05"), reason="typo"))
    assert (new.valid_from, new.valid_until, new.source) == (
        old.valid_from,
        old.valid_until,
        "memo",
    )
    assert (new.price_per_gpu_hour, new.reason) == (eur("2.05"), "typo")
    kept = read(database, old.id)
    assert kept.price_per_gpu_hour == eur("2.10")
    assert (kept.superseded_by, kept.superseded_at) == (new.id, new.recorded_at)
    assert kept.version == 2
    assert [row.id for row in all_rates(database)] == [new.id]
    with database.read() as connection:
        now = rates_for(connection, TEAM, "H100-SXM", "EUR", None)
        then = rates_for(connection, TEAM, "H100-SXM", "EUR", None, as_of=before)
        earlier = rates_for(
            connection, TEAM, "H100-SXM", "EUR", None, as_of=before - timedelta(days=1)
        )
    assert [line.id for line in now] == [str(new.id)]
    assert [line.id for line in then] == [str(old.id)]
    assert earlier == []


def test_a_correction_ends_a_rate_and_opens_it_again(database: Database) -> None:
    old = record(database, rate("2026-01-01"))
    ended = correct(database, old, CorrectionIn(valid_until=date(2026, 7, 1), reason="over"))
    assert ended.valid_until == date(2026, 7, 1)
    following = record(database, rate("2026-07-01", amount="1.9"))
    with pytest.raises(ConflictError) as caught:
        correct(database, ended, CorrectionIn(valid_until=None, reason="not over"))
    assert str(following.id) in caught.value.errors[0].detail
    assert read(database, ended.id).superseded_by is None


def test_a_correction_cannot_move_the_key_or_repeat(database: Database) -> None:
    old = record(database, rate("2026-01-01"))
    dollars = Money(amount="2", currency="USD")
    with pytest.raises(InvalidError, match="another rate"):
        correct(database, old, CorrectionIn(price_per_gpu_hour=dollars, reason="wrong"))
    new = correct(database, old, CorrectionIn(source="invoice", reason="found it"))
    with pytest.raises(PreconditionFailedError):
        correct(database, old, CorrectionIn(source="invoice", reason="again"))
    with pytest.raises(ConflictError, match=str(new.id)):
        correct(database, read(database, old.id), CorrectionIn(source="invoice", reason="again"))
    with database.write() as connection, pytest.raises(NotFoundError):
        correct_rate(connection, ACTOR, UUID(int=1), CorrectionIn(reason="x"), version=1)


def test_an_exact_cost_center_wins_day_by_day(database: Database) -> None:
    general = record(database, rate("2026-01-01", amount="2"))
    exact = record(database, rate("2026-01-10", "2026-01-20", center="research", amount="1"))
    record(database, rate("2026-01-01", center="other", amount="9"))
    with database.read() as connection:
        known = rates_for(connection, TEAM, "H100-SXM", "EUR", "research")
        nobody = rates_for(connection, TEAM, "H100-SXM", "EUR", "unheard-of")
    assert [line.id for line in known] == [str(exact.id), str(general.id)]
    assert [line.id for line in nobody] == [str(general.id)]
    window = price_days(known, date(2026, 1, 5), 30)
    assert {line.rate_id: line.days for line in window.lines} == {
        str(general.id): 20,
        str(exact.id): 10,
    }


def resolution(
    database: Database, on: str, center: str | None
) -> tuple[str, UUID | None, list[str]]:
    key = RateKey(gpu_type="H100-SXM", currency="EUR", cost_center=center)
    with database.read() as connection:
        found = resolve_rate(connection, ACTOR, key, on=date.fromisoformat(on))
    return (
        found.code,
        None if found.rate is None else found.rate.id,
        [lost.code for lost in found.lost],
    )


def test_resolution_says_which_rate_wins_and_why(database: Database) -> None:
    assert resolution(database, "2026-01-15", "research") == ("no_rate", None, [])
    typo = record(database, rate("2026-01-01", "2026-06-01", amount="21.0"))
    general = correct(database, typo, CorrectionIn(price_per_gpu_hour=eur("2.10"), reason="typo"))
    exact = record(database, rate("2026-01-10", "2026-01-20", center="research"))
    assert resolution(database, "2026-01-15", "research") == (
        "exact_cost_center",
        exact.id,
        ["less_specific", "superseded"],
    )
    assert resolution(database, "2026-01-15", None) == (
        "no_cost_center",
        general.id,
        ["superseded"],
    )
    assert resolution(database, "2026-01-20", "research") == (
        "no_cost_center",
        general.id,
        ["superseded", "ended"],
    )
    assert resolution(database, "2026-06-01", "research") == (
        "no_rate",
        None,
        ["ended", "ended"],
    )
    assert resolution(database, "2025-12-31", None) == ("no_rate", None, ["not_started"])


def test_resolution_as_it_was_known_before(database: Database) -> None:
    old = record(database, rate("2026-01-01"))
    new = correct(database, old, CorrectionIn(price_per_gpu_hour=eur("3"), reason="rise"))
    key = RateKey(gpu_type="H100-SXM", currency="EUR", cost_center=None)
    day = date(2026, 2, 1)
    with database.read() as connection:
        before = resolve_rate(connection, ACTOR, key, on=day, as_of=old.recorded_at)
        after = resolve_rate(connection, ACTOR, key, on=day, as_of=new.recorded_at)
    assert before.rate is not None
    assert before.rate.id == old.id
    assert after.rate is not None
    assert after.rate.id == new.id


def test_pages_walk_through_all_rates_once(database: Database) -> None:
    for month in range(1, 8):
        record(database, rate(f"2026-{month:02}-01", f"2026-{month + 1:02}-01"))
    record(database, rate("2026-01-01", center="a"))
    seen: list[UUID] = []
    token: str | None = None
    with database.read() as connection:
        while True:
            page = list_page(connection, ACTOR, EVERY_RATE, page_size=3, page_token=token)
            seen += [item.id for item in page.items]
            token = page.next_page_token
            if token is None:
                break
            other = RateFilter(gpu_type="H100-SXM")
            with pytest.raises(MalformedError, match="another filter"):
                list_page(connection, ACTOR, other, page_size=3, page_token=token)
    assert len(seen) == len(set(seen)) == 8


def test_a_forged_page_token_is_refused(sqlite_database: Database) -> None:
    position = ("\0", "EUR", "", date(2026, 1, 1), UUID(int=1))
    token = make_token(["rates", msgspec.to_builtins(EVERY_RATE)], position)
    with sqlite_database.read() as connection, pytest.raises(MalformedError, match="none of ours"):
        list_page(connection, ACTOR, EVERY_RATE, page_size=3, page_token=token)


def test_filters_of_the_list(database: Database) -> None:
    first = record(database, rate("2026-01-01", "2026-02-01"))
    second = record(database, rate("2026-02-01", center="a"))

    def found(wanted: RateFilter) -> list[UUID]:
        with database.read() as connection:
            page = list_page(connection, ACTOR, wanted, page_size=9, page_token=None)
        return [item.id for item in page.items]

    assert found(RateFilter(on=date(2026, 1, 31))) == [first.id]
    assert found(RateFilter(on=date(2026, 2, 1))) == [second.id]
    assert found(RateFilter(cost_center="a")) == [second.id]
    assert found(RateFilter(currency="USD")) == []
    assert found(RateFilter(gpu_type="H100-SXM")) == [first.id, second.id]
