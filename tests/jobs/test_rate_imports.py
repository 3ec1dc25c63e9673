"""Import of rates from CSV: all or nothing, every bad line named."""

from datetime import date

import pytest

from service.db.engine import Database
from service.db.rates import RateFilter
from service.errors import ConflictError, InvalidError, TooLargeError
from service.jobs import rate_imports
from service.jobs.actors import Actor
from service.jobs.rate_documents import ImportOut
from service.jobs.rates import import_rates, list_page

ACTOR = Actor()
HEADER = "gpu_type,cost_center,currency,price_per_gpu_hour,valid_from,valid_until,source\n"


def load(database: Database, text: str, *, dry_run: bool = False) -> ImportOut:
    with database.write() as connection:
        return import_rates(connection, ACTOR, text, dry_run=dry_run)


def num_stored(database: Database) -> int:
    with database.read() as connection:
        page = list_page(connection, ACTOR, RateFilter(), page_size=999, page_token=None)
    return len(page.items)


def faults(database: Database, text: str) -> list[tuple[str, str]]:
    with pytest.raises((InvalidError, ConflictError)) as caught:
        load(database, text)
    return [(fault.pointer, fault.code) for fault in caught.value.errors]


GOOD = (
    "\ufeff" + HEADER + "H100-SXM,,EUR,2.10,2026-01-01,2026-07-01,memo 1\r\n"
    "\r\n"
    'H100-SXM,research,EUR,1.050,2026-01-01,,"memo 2,\nsecond page"\n'
)


def test_all_rates_are_recorded(database: Database) -> None:
    text = GOOD.replace("memo 2,\nsecond", "memo 2, second")
    done = load(database, text)
    assert (done.num_rates, done.validate_only) == (2, False)
    assert [item.line for item in done.items] == [2, 4]
    with database.read() as connection:
        page = list_page(connection, ACTOR, RateFilter(), page_size=9, page_token=None)
    assert [item.id for item in page.items] == [item.id for item in done.items]
    assert page.items[1].price_per_gpu_hour.amount == "1.050"
    assert page.items[1].source == "memo 2, second page"
    assert page.items[1].valid_until is None
    with pytest.raises(ConflictError, match="2 fault"):
        load(database, text)
    assert num_stored(database) == 2


def test_a_dry_run_stores_nothing(database: Database) -> None:
    text = HEADER + "H100-SXM,,EUR,2.10,2026-01-01,2026-07-01,memo\n"
    done = load(database, text, dry_run=True)
    assert (done.num_rates, done.validate_only, done.items[0].id) == (1, True, None)
    assert num_stored(database) == 0
    with database.read() as connection:
        assert import_rates(connection, ACTOR, text, dry_run=True) == done


def test_every_fault_is_named_and_nothing_stored(database: Database) -> None:
    text = HEADER + (
        "H100-SXM,,EUR,2.10,2026-01-01,2026-07-01,memo\n"  # line 2
        "H100-SXM,,EUR,2.10,01.02.2026,,memo\n"
        "H100-SXM,,EUR,2.10,2026-06-30,,memo\n"  # line 4: overlaps line 2
        "H100-SXM,,EUR,2.10,2026-09-01\n"
        ",,eur,free,2026-09-01,2026-08-01,memo\n"  # line 6
        "A100,,EUR,0,2026-09-01,2026-08-01,memo\n"
    )
    assert faults(database, text) == [
        ("/rows/3/valid_from", "wrong_format"),
        ("/rows/4/valid_from", "overlapping_rate"),
        ("/rows/5", "wrong_number_of_cells"),
        ("/rows/6/gpu_type", "wrong_length"),
        ("/rows/6/price_per_gpu_hour", "wrong_pattern"),
        ("/rows/6/currency", "wrong_pattern"),
        ("/rows/7/price_per_gpu_hour", "not_positive"),
        ("/rows/7/valid_until", "empty_validity"),
    ]
    assert num_stored(database) == 0


def test_a_label_with_a_line_break_is_refused_at_its_first_line(sqlite_database: Database) -> None:
    assert faults(sqlite_database, GOOD) == [("/rows/4/source", "malformed_label")]


def test_overlaps_with_stored_rates_are_named(database: Database) -> None:
    first = load(database, HEADER + "H100,,EUR,2.10,2026-01-01,2026-07-01,memo\n")
    with pytest.raises(ConflictError) as caught:
        load(
            database,
            HEADER
            + "H100,,EUR,2.20,2025-01-01,2026-01-02,early\n"
            + "H100,,EUR,2.20,2026-06-01,2026-08-01,late\n"
            + "H100,,EUR,2.20,2026-08-01,,fits\n",
        )
    assert [fault.pointer for fault in caught.value.errors] == [
        "/rows/2/valid_from",
        "/rows/3/valid_from",
    ]
    assert all(str(first.items[0].id) in fault.detail for fault in caught.value.errors)
    assert num_stored(database) == 1


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", ["wrong_header"] * 5),
        (HEADER, ["no_rows"]),
        (HEADER.replace("source", "sauce"), ["wrong_header"] * 2),
        (HEADER.replace("valid_until", "source"), ["wrong_header"]),
        (HEADER + '"H100,,EUR,2.10,2026-01-01,,memo\n', ["malformed_csv"]),
        (HEADER + '"H"100,,EUR,2.10,2026-01-01,,memo\n', ["malformed_csv"]),
    ],
)
def test_a_text_that_is_no_table_of_rates(
    sqlite_database: Database, text: str, codes: list[str]
) -> None:
    assert [code for _, code in faults(sqlite_database, text)] == codes


def test_optional_columns_may_be_absent_and_stand_anywhere(sqlite_database: Database) -> None:
    text = "source, currency,gpu_type,price_per_gpu_hour,valid_from\nmemo,EUR,H100,2,2026-01-01\n"
    done = load(sqlite_database, text)
    assert (done.items[0].cost_center, done.items[0].valid_until) == (None, None)
    assert done.items[0].valid_from == date(2026, 1, 1)


def test_too_many_rows_are_refused(
    sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_imports, "MAX_ROWS", 1)
    text = HEADER + "H100,,EUR,2,2026-01-01,2026-02-01,memo\nH100,,EUR,2,2026-02-01,,memo\n"
    with pytest.raises(TooLargeError, match="more than 1 rates"):
        load(sqlite_database, text)
