"""No two current rates of a key share a day: against brute-force day sets, and under races."""

import threading
from collections.abc import Callable
from datetime import date, timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.db.engine import Database
from service.db.rates import RateFilter, RateKey
from service.errors import ConflictError, PreconditionFailedError
from service.jobs.actors import Actor
from service.jobs.rate_corrections import correct_rate
from service.jobs.rate_documents import CorrectionIn, RateIn, RateOut
from service.jobs.rate_overlaps import Span, sweep_overlaps
from service.jobs.rate_resolution import resolve_rate
from service.jobs.rates import create_rate, list_page
from service.reports.money import Money

ACTOR = Actor(name="finance")


def eur(amount: str) -> Money:
    return Money(amount=amount, currency="EUR")


def rate(first: str, end: str | None = None, *, center: str | None = None) -> RateIn:
    return RateIn(
        gpu_type="H100-SXM",
        cost_center=center,
        price_per_gpu_hour=eur("2.10"),
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


def all_rates(database: Database, *, superseded: bool = False) -> list[RateOut]:
    wanted = RateFilter(include_superseded=superseded)
    with database.read() as connection:
        return list_page(connection, ACTOR, wanted, page_size=1000, page_token=None).items


DAYS = st.integers(min_value=0, max_value=30)
FIRST = date(2026, 1, 1)


@st.composite
def spans(draw: st.DrawFn) -> tuple[int, int | None]:
    first = draw(DAYS)
    return first, draw(st.none() | st.integers(min_value=first + 1, max_value=31))


def days_of(span: tuple[int, int | None]) -> set[int]:
    return set(range(span[0], 40 if span[1] is None else span[1]))


def on_day(number: int) -> date:
    return FIRST + timedelta(days=number)


@given(st.lists(spans(), max_size=12))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_stored_rates_never_share_a_day(
    sqlite_database: Database, wanted: list[tuple[int, int | None]]
) -> None:
    """Each rate is taken exactly when its set of days is free, whatever came before."""
    taken: set[int] = set()
    with sqlite_database.engine.connect() as connection, connection.begin() as transaction:
        for span in wanted:
            document = msgspec.structs.replace(
                rate("2026-01-01"),
                valid_from=on_day(span[0]),
                valid_until=None if span[1] is None else on_day(span[1]),
            )
            if taken & days_of(span):
                with pytest.raises(ConflictError):
                    create_rate(connection, ACTOR, document)
            else:
                create_rate(connection, ACTOR, document)
                taken |= days_of(span)
        for number in range(40):
            key = RateKey(gpu_type="H100-SXM", currency="EUR", cost_center=None)
            found = resolve_rate(connection, ACTOR, key, on=on_day(number))
            assert (found.rate is not None) == (number in taken)
        transaction.rollback()


@given(st.lists(st.tuples(spans(), st.booleans()), max_size=14))
def test_a_sweep_finds_an_overlap_when_two_share_a_day(
    wanted: list[tuple[tuple[int, int | None], bool]],
) -> None:
    stored: set[int] = set()
    everything: list[set[int]] = []
    lines: list[Span] = []
    for number, (span, is_stored) in enumerate(wanted, start=2):
        # stored rates never share a day with each other
        in_store = is_stored and not stored & days_of(span)
        if in_store:
            stored |= days_of(span)
        everything.append(days_of(span))
        lines.append(
            Span(
                valid_from=on_day(span[0]),
                valid_until=None if span[1] is None else on_day(span[1]),
                label="x",
                line=None if in_store else number,
            )
        )
    shared = sum(map(len, everything)) > len(set().union(*everything))
    faults = sweep_overlaps(lines)
    assert bool(faults) == shared
    assert not any("None" in fault.pointer for fault in faults)


def race(work: Callable[[int], None], num_threads: int) -> list[BaseException]:
    """Run the work in threads that start together; the errors that they ended with."""
    gate = threading.Barrier(num_threads)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        gate.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - counted by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_of_racing_overlaps_one_wins(database: Database) -> None:
    for turn in range(3):
        center = f"team-{turn}"

        def write(number: int, center: str = center) -> None:
            record(database, rate(f"2026-01-{number + 1:02}", center=center))

        errors = race(write, 8)
        assert [type(error) for error in errors] == [ConflictError] * 7
        assert len([row for row in all_rates(database) if row.cost_center == center]) == 1


def test_racing_rates_that_do_not_overlap_all_win(database: Database) -> None:
    def write(number: int) -> None:
        record(database, rate(f"2026-01-{number + 1:02}", f"2026-01-{number + 2:02}"))

    assert race(write, 8) == []
    assert len(all_rates(database)) == 8


def test_of_racing_corrections_one_wins(database: Database) -> None:
    old = record(database, rate("2026-01-01"))

    def write(number: int) -> None:
        price = eur(f"3.{number}")
        correct(database, old, CorrectionIn(price_per_gpu_hour=price, reason="race"))

    errors = race(write, 8)
    assert [type(error) for error in errors] == [PreconditionFailedError] * 7
    assert len(all_rates(database)) == 1
    assert len(all_rates(database, superseded=True)) == 2
