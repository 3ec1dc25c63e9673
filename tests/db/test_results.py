"""Listings against a plain sort and filter of the same rows, and what they must not read."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sqlalchemy import event, update

from service.db import blocks, candidates, encoded_blocks, results
from service.db.engine import Database
from service.db.results import (
    BatchRef,
    Cursor,
    Derived,
    Filter,
    Order,
    PointRef,
    fetch_batches,
    fetch_points,
    iterate_columns,
    scan,
)
from service.db.tables import result_block
from service.errors import MalformedError

Store = Callable[..., UUID]
Row = dict[str, Any]
BLOCK = 5
FACTORS = np.array([2.3, np.nan, -1.0])
VALUES = [float("nan"), float("inf"), -1.5, -0.0, 0.0, 2.0, 1e308, -1e308]
# Order and filters compare in float64: the two greatest sizes are the same there.
SIZES = [1, 2, 64, -5, 2**53, 2**53 + 1]
COLUMNS = ["loss", "gpus", "method", "flag", "cost", "unknown", "nodes", "point", "item"]
# What all points of a batch have without that it is stored
NUM_NODES = 4.0
OPERATORS = {
    "eq": lambda value, bound: value == bound,
    "ne": lambda value, bound: value != bound,
    "lt": lambda value, bound: value < bound,
    "le": lambda value, bound: value <= bound,
    "gt": lambda value, bound: value > bound,
    "ge": lambda value, bound: value >= bound,
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut after few points, so that few points make many blocks."""
    for module in (blocks, encoded_blocks, candidates, results):
        monkeypatch.setattr(module, "BLOCK_POINTS", BLOCK)


class Case:
    """Drawn batches, and the same points as plain rows."""

    def __init__(self, draw: Any) -> None:
        self.tables: list[dict[str, NDArray[Any]]] = []
        self.rows: list[list[Row]] = []
        self.items: list[tuple[int, ...] | None] = []
        self.digits = draw(st.sampled_from([None, 0]))
        for _ in range(draw(st.integers(1, 3))):
            rows = draw(st.lists(one_row(), min_size=1, max_size=23))
            rows.sort(key=lambda row: row["item"])
            has_gpus = draw(st.booleans())
            self.tables.append(table_of(rows, has_gpus=has_gpus))
            self.items.append(draw(st.sampled_from([None, None, (0,), (0, 2)])))
            self.rows.append(
                [
                    shown(row, point, has_gpus=has_gpus, digits=self.digits)
                    for point, row in enumerate(rows)
                ]
            )
        self.filters = draw(st.lists(one_filter(), max_size=2))
        self.order = draw(st.lists(one_order(), max_size=3, unique_by=lambda part: part.column))
        self.limit = draw(st.integers(1, 7))

    def expected(self) -> list[tuple[int, int]]:
        """(batch number, point) in the order of the list, by plain Python."""
        found = [
            (batch, point, row)
            for batch, rows in enumerate(self.rows)
            for point, row in enumerate(rows)
            if row["failure"] == 0
            and (self.items[batch] is None or row["item"] in (self.items[batch] or ()))
            and all(holds(row[part.column], part) for part in self.filters)
        ]
        for part in reversed(self.order):
            valued = [entry for entry in found if entry[2][part.column] is not None]
            nulls = [entry for entry in found if entry[2][part.column] is None]
            column = part.column
            valued.sort(
                key=lambda entry: -entry[2][column] if part.descending else entry[2][column]
            )
            found = valued + nulls
        return [(batch, point) for batch, point, _ in found]


def one_row() -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {
            "failure": st.sampled_from([0, 0, 0, 3]),
            "item": st.integers(0, 2),
            "loss": st.sampled_from(VALUES),
            "gpus": st.sampled_from(SIZES),
            "method": st.integers(-1, 2),
            "flag": st.booleans(),
        }
    )


def one_filter() -> st.SearchStrategy[Filter]:
    names = st.sampled_from(COLUMNS)
    bounds = st.sampled_from([-1.5, 0.0, 1.0, 2.0, 4.0, 6.0, 64.0, 2.0**53])
    return st.one_of(
        st.builds(Filter, column=names, operator=st.sampled_from(list(OPERATORS)), value=bounds),
        st.builds(Filter, column=names, operator=st.just("is_null"), value=st.booleans()),
    )


def one_order() -> st.SearchStrategy[Order]:
    return st.builds(Order, column=st.sampled_from(COLUMNS), descending=st.booleans())


def table_of(rows: list[Row], *, has_gpus: bool) -> dict[str, NDArray[Any]]:
    types = {
        "failure": np.int8,
        "item": np.int64,
        "loss": np.float64,
        "method": np.int8,
        "flag": np.bool_,
    }
    if has_gpus:
        types["gpus"] = np.int64
    return {name: np.array([row[name] for row in rows], dtype=kind) for name, kind in types.items()}


def shown(row: Row, point: int, *, has_gpus: bool, digits: int | None) -> Row:
    def finite(value: float) -> float | None:
        return value if np.isfinite(value) else None

    with np.errstate(over="ignore"):
        cost = np.float64(row["loss"]) * FACTORS[row["item"]]
        if digits is not None:
            cost = np.round(cost, digits)
    return {
        **row,
        "point": point,
        "flag": float(row["flag"]),
        "loss": finite(row["loss"]),
        "gpus": float(row["gpus"]) if has_gpus else None,
        "method": row["method"] if row["method"] >= 0 else None,
        "cost": finite(float(cost)),
        "unknown": None,
        "nodes": NUM_NODES,
    }


def holds(value: float | None, condition: Filter) -> bool:
    if condition.operator == "is_null":
        return (value is None) == condition.value
    return value is not None and bool(OPERATORS[condition.operator](value, condition.value))


def refs_of(case: Case, store: Store) -> list[BatchRef]:
    cost = {"cost": Derived(source="loss", factors=FACTORS, digits=case.digits)}
    return [
        BatchRef(batch_id=store(table), items=items, derived=cost, constants={"nodes": NUM_NODES})
        for table, items in zip(case.tables, case.items, strict=True)
    ]


def all_pages(
    database: Database,
    refs: Sequence[BatchRef],
    filters: Sequence[Filter],
    order: Sequence[Order],
    limit: int,
) -> list[PointRef]:
    found: list[PointRef] = []
    with database.read() as connection:
        while True:
            after = found[-1].cursor if found else None
            page = scan(connection, refs, filters, order, after=after, limit=limit)
            assert len(page) <= limit
            found += page
            if len(page) < limit:
                return found


@pytest.mark.usefixtures("small_blocks")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=st.composite(Case)())
def test_pages_are_the_sorted_and_filtered_rows(
    database: Database, store: Store, case: Case
) -> None:
    refs = refs_of(case, store)
    numbers = {ref.batch_id: number for number, ref in enumerate(refs)}
    found = all_pages(database, refs, case.filters, case.order, case.limit)
    places = [(numbers[ref.batch_id], ref.point) for ref in found]
    assert places == case.expected()
    with database.read() as connection:
        whole = scan(connection, refs, case.filters, case.order, limit=100)
        exported = [
            (number, int(point))
            for number, ref in enumerate(refs)
            for part in iterate_columns(connection, ref, ["point"], case.filters, chunk_blocks=2)
            for point in part["point"]
        ]
    assert whole == found
    assert exported == sorted(places)


class Moving:
    """Batches of which some come and some go while pages of them are read."""

    def __init__(self, draw: Any) -> None:
        moments = draw(st.lists(st.integers(0, 3), min_size=2, max_size=5))
        self.created_at = [datetime(2026, 12, 1 + moment, tzinfo=UTC) for moment in moments]
        self.tables = [
            table_of(
                draw(st.lists(one_row(), min_size=1, max_size=12)), has_gpus=draw(st.booleans())
            )
            for _ in moments
        ]
        numbers = st.integers(0, len(moments) - 1)
        # By page: batches that are there when it is read.
        self.present = draw(st.lists(st.sets(numbers), min_size=1, max_size=6))
        self.order = draw(st.lists(one_order(), max_size=2, unique_by=lambda part: part.column))
        self.limit = draw(st.integers(1, 5))


@pytest.mark.usefixtures("small_blocks")
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=st.composite(Moving)())
def test_batches_that_come_and_go_shift_no_page(
    database: Database, store: Store, case: Moving
) -> None:
    cost = {"cost": Derived(source="loss", factors=FACTORS)}
    refs = sorted(
        (
            BatchRef(batch_id=store(table), created_at=created_at, derived=cost)
            for table, created_at in zip(case.tables, case.created_at, strict=True)
        ),
        key=lambda ref: (ref.created_at, ref.batch_id),
        reverse=True,
    )
    # At last all that were ever there are there again, so that the list has an end.
    ever = set[int]().union(*case.present)
    pages = iter(case.present)
    found: list[PointRef] = []
    with database.read() as connection:
        whole = scan(connection, refs, [], case.order, limit=1000)
        while True:
            present = next(pages, ever)
            shown = [ref for number, ref in enumerate(refs) if number in present]
            after = found[-1].cursor if found else None
            page = scan(connection, shown, [], case.order, after=after, limit=case.limit)
            found += page
            if present == ever and len(page) < case.limit:
                break
    places = [(row.batch_id, row.point) for row in whole]
    listed = [places.index((row.batch_id, row.point)) for row in found]
    # In order and once each, and of the batches that stayed all rows.
    assert listed == sorted(set(listed))
    stayed = {refs[number].batch_id for number in ever.intersection(*case.present)}
    assert {place for place in places if place[0] in stayed} <= {places[row] for row in listed}


@pytest.mark.usefixtures("small_blocks")
def test_a_page_goes_on_after_a_deleted_batch(database: Database, store: Store) -> None:
    days = [datetime(2026, 12, day, tzinfo=UTC) for day in (3, 2, 1)]
    refs = [BatchRef(batch_id=store(rising(3)), created_at=day) for day in days]
    with database.read() as connection:
        for order, limit, rest in (([], 4, [0, 1, 2]), ([Order(column="tied")], 7, [1, 2])):
            first = scan(connection, refs, [], order, limit=limit)
            assert first[-1].batch_id == refs[1].batch_id
            left = [refs[0], refs[2]]
            following = scan(connection, left, [], order, limit=9, after=first[-1].cursor)
            expected = [(refs[2].batch_id, point) for point in rest]
            assert [(row.batch_id, row.point) for row in following] == expected


@pytest.mark.usefixtures("small_blocks")
def test_points_are_filtered_and_sorted_by_their_number(database: Database, store: Store) -> None:
    batch_id = store(rising(60))
    spoil(database, batch_id, except_blocks=[3, 4])
    filters = [
        Filter(column="point", operator="gt", value=16.0),
        Filter(column="point", operator="le", value=21.0),
        Filter(column="loss", operator="ge", value=0.0),
    ]
    ref = BatchRef(batch_id=batch_id)
    with database.read() as connection:
        found = scan(connection, [ref], filters, [Order(column="point", descending=True)], limit=50)
        (part,) = iterate_columns(connection, ref, ["point"], filters)
    assert [row.point for row in found] == [21, 20, 19, 18, 17]
    assert part["point"].tolist() == [17, 18, 19, 20, 21]


def spoil(database: Database, batch_id: UUID, *, except_blocks: Sequence[int]) -> None:
    """Make values unreadable, so that whoever reads them fails."""
    with database.write() as connection:
        connection.execute(
            update(result_block)
            .where(
                result_block.c.batch_id == batch_id,
                result_block.c.block.not_in(except_blocks),
            )
            .values(data=b"not a zstd frame")
        )


def rising(num_points: int) -> dict[str, NDArray[Any]]:
    points = np.arange(num_points)
    return {
        "failure": np.zeros(num_points, dtype=np.int8),
        "item": points // 20,
        "loss": points * 1.5,
        "tied": np.where(points % BLOCK == 0, 7.0, 8.0),
    }


@pytest.mark.usefixtures("small_blocks")
def test_filters_read_only_blocks_that_can_match(database: Database, store: Store) -> None:
    batch_id = store(rising(60))
    spoil(database, batch_id, except_blocks=[4])
    ref = BatchRef(batch_id=batch_id)
    filters = [
        Filter(column="loss", operator="ge", value=30.0),
        Filter(column="loss", operator="lt", value=37.5),
    ]
    with database.read() as connection:
        found = scan(connection, [ref], filters, [], limit=50)
        assert [row.point for row in found] == [20, 21, 22, 23, 24]
        (part,) = iterate_columns(connection, ref, ["loss"], filters)
        assert part["loss"].tolist() == [30.0, 31.5, 33.0, 34.5, 36.0]


@pytest.mark.usefixtures("small_blocks")
def test_a_sorted_page_reads_only_the_blocks_that_can_lead(
    database: Database, store: Store
) -> None:
    batch_id = store(rising(60))
    spoil(database, batch_id, except_blocks=[11, 10])
    order = [Order(column="loss", descending=True)]
    with database.read() as connection:
        refs = [BatchRef(batch_id=batch_id)]
        found = scan(connection, refs, [], order, limit=5, after=None)
        assert [row.point for row in found] == [59, 58, 57, 56, 55]
        following = scan(connection, refs, [], order, limit=5, after=found[-1].cursor)
        assert [row.point for row in following] == [54, 53, 52, 51, 50]


@pytest.mark.usefixtures("small_blocks")
def test_ties_stop_at_the_first_block_that_fills_the_page(database: Database, store: Store) -> None:
    batch_id = store(rising(60))
    spoil(database, batch_id, except_blocks=[0, 1])
    with database.read() as connection:
        found = scan(connection, [BatchRef(batch_id=batch_id)], [], [Order(column="tied")], limit=1)
    assert [row.point for row in found] == [0]


@pytest.mark.usefixtures("small_blocks")
def test_items_outside_the_query_are_not_read(database: Database, store: Store) -> None:
    batch_id = store(rising(60))
    spoil(database, batch_id, except_blocks=[4, 5, 6, 7])
    refs = [BatchRef(batch_id=batch_id, items=(1,))]
    order = [Order(column="tied"), Order(column="loss", descending=True)]
    with database.read() as connection:
        found = scan(connection, refs, [], order, limit=3)
    assert [row.point for row in found] == [35, 30, 25]


def test_default_order_needs_no_values_of_whole_blocks(database: Database, store: Store) -> None:
    batch_id = store(rising(60))
    other = store(rising(60))
    # failure and a whole batch without conditions: everything follows from the zone maps
    with database.read() as connection:
        refs = [BatchRef(batch_id=other), BatchRef(batch_id=batch_id)]
        first = scan(connection, refs, [], [], limit=50)
        second = scan(connection, refs, [], [], limit=50, after=first[-1].cursor)
    assert [(row.batch_id, row.point) for row in first] == [(other, k) for k in range(50)]
    assert [(row.batch_id, row.point) for row in second] == [
        *((other, k) for k in range(50, 60)),
        *((batch_id, k) for k in range(40)),
    ]


def test_all_pruned_page_is_empty(database: Database, store: Store) -> None:
    ref = BatchRef(batch_id=store(rising(60)))
    filters = [Filter(column="loss", operator="gt", value=1e9)]
    with database.read() as connection:
        assert scan(connection, [ref], filters, [Order(column="loss")], limit=50) == []
        assert scan(connection, [], [], [], limit=50) == []
        assert list(iterate_columns(connection, ref, ["loss"], filters)) == []


def test_failed_points_are_listed_only_when_asked_for(database: Database, store: Store) -> None:
    columns = {**rising(6), "failure": np.array([0, 1, 0, 2, 0, 0], dtype=np.int8)}
    refs = [BatchRef(batch_id=store(columns))]
    asked = [Filter(column="failure", operator="ne", value=0)]
    with database.read() as connection:
        assert [row.point for row in scan(connection, refs, [], [], limit=9)] == [0, 2, 4, 5]
        assert [row.point for row in scan(connection, refs, asked, [], limit=9)] == [1, 3]


def test_faulty_questions_are_refused(database: Database, store: Store) -> None:
    ref = BatchRef(batch_id=store(rising(6)))
    foreign = Cursor(values=(1.0,), batch_id=ref.batch_id, point=3)
    with database.read() as connection:
        with pytest.raises(ValueError, match="limit is 0"):
            scan(connection, [ref], [], [], limit=0)
        with pytest.raises(MalformedError, match="page token"):
            scan(connection, [ref], [], [], limit=1, after=foreign)


@pytest.mark.usefixtures("small_blocks")
def test_points_are_fetched_in_the_order_given(database: Database, store: Store) -> None:
    columns = rising(12)
    batch_id = store(columns)
    spoil(database, batch_id, except_blocks=[0, 2])
    points = np.array([11, 0, 4, 10, 0])
    with database.read() as connection:
        found = fetch_points(connection, batch_id, points, ["loss", "item", "unknown"])
    assert found["loss"].tolist() == [16.5, 0.0, 6.0, 15.0, 0.0]
    assert found["item"].dtype == np.int64
    assert np.isnan(found["unknown"]).all()


@pytest.mark.usefixtures("small_blocks")
def test_points_of_several_batches_come_by_one_statement(database: Database, store: Store) -> None:
    older = {name: values for name, values in rising(12).items() if name != "tied"}
    batch_ids = [store(rising(12)), store(older), store(rising(7))]
    wanted = [np.array([11, 3]), np.array([6]), np.array([0, 9])]
    statements: list[str] = []
    listener = ("before_cursor_execute", lambda *call: statements.append(call[2]))
    event.listen(database.engine, *listener)
    with database.read() as connection:
        found = fetch_batches(
            connection, dict(zip(batch_ids, wanted, strict=True)), ["loss", "item", "tied"]
        )
    event.remove(database.engine, *listener)
    first, second, third = (found[batch_id] for batch_id in batch_ids)
    assert first["loss"].tolist() == [16.5, 4.5]
    assert first["tied"].tolist() == [8.0, 8.0]
    assert (second["loss"].tolist(), np.isnan(second["tied"]).tolist()) == ([9.0], [True])
    assert (third["loss"][0], third["item"].tolist()) == (0.0, [0, -1])
    assert np.isnan(third["loss"][1])
    assert sum("result_block" in statement for statement in statements) == 1


@pytest.mark.usefixtures("small_blocks")
def test_points_of_a_gap_are_no_results(database: Database, store: Store) -> None:
    batch_id = store(rising(BLOCK))
    store(rising(2), batch_id, 3)
    ref = BatchRef(batch_id=batch_id)
    with database.read() as connection:
        listed = scan(connection, [ref], [], [], limit=50)
        found = fetch_points(
            connection, batch_id, np.array([1, 7, 16, 17, 99]), ["failure", "loss", "item"]
        )
    assert [row.point for row in listed] == [0, 1, 2, 3, 4, 15, 16]
    assert found["failure"].tolist() == [0, -1, 0, -1, -1]
    assert found["item"].tolist() == [0, -1, 0, -1, -1]
    assert np.isnan(found["loss"]).tolist() == [False, True, False, True, True]


@pytest.mark.usefixtures("small_blocks")
def test_export_keeps_types_and_gives_derived_columns(database: Database, store: Store) -> None:
    ref = BatchRef(
        batch_id=store(rising(60)),
        derived={"cost": Derived(source="loss", factors=np.array([1.0, 10.0, np.nan]))},
    )
    with database.read() as connection:
        parts = list(iterate_columns(connection, ref, ["point", "item", "cost"], chunk_blocks=3))
    assert [len(part["point"]) for part in parts] == [15, 15, 15, 15]
    assert parts[0]["item"].dtype == np.int64
    assert parts[1]["cost"].tolist()[4:6] == [28.5, 300.0]
    assert np.isnan(parts[3]["cost"]).all()
