"""Pages of results while batches come, end and go, and points that no chunk was stored for."""

from uuid import UUID

import pytest

from service.db.engine import Database
from service.errors import MalformedError, NotFoundError
from service.jobs import comparisons, deletions, results
from service.jobs.comparisons import ComparisonQuery
from service.jobs.result_documents import ResultPage
from service.jobs.result_queries import ResultsQuery
from tests.jobs.batch_bodies import (
    ACTOR,
    SEED,
    SIZES,
    cancel,
    item,
    read,
    rows,
    run,
    speeds,
    submit,
)
from tests.jobs.chunk_steps import end, record
from tests.jobs.completed import complete

Place = tuple[UUID, int]


def page(database: Database, token: str | None = None, **query: object) -> ResultPage:
    with database.read() as connection:
        asked = ResultsQuery(page_token=token, **query)  # type: ignore[arg-type] # by the test
        return results.list_page(connection, ACTOR, asked)


def places(found: ResultPage) -> list[Place]:
    return [(row.batch_id, row.point) for row in found.items]


def delete(database: Database, batch_id: UUID) -> None:
    batch = read(database, batch_id)
    with database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch_id, expected_version=batch.version)


@pytest.mark.parametrize("order", ["", "-gpu_hours_lost", "num_gpus,-point"])
def test_pages_stay_right_while_batches_come_and_go(database: Database, order: str) -> None:
    oldest, named, newest = (run(database, item(axes=[SIZES])) for _ in range(3))
    running = submit(database, item(axes=[SIZES]))
    whole = places(page(database, order_by=order, page_size=1000))
    assert len(whole) == 45
    first = page(database, order_by=order, page_size=20)
    assert places(first) == whole[:20]
    # One ends, one is new, and the one that the token names is deleted.
    complete(database)
    added = run(database, item(axes=[SIZES]))
    delete(database, places(first)[-1][0])
    second = page(database, first.next_page_token, order_by=order, page_size=1000)
    shown, gone = places(second), places(first)[-1][0]
    assert not set(shown) & set(whole[:20])
    stayed = {oldest.id, named.id, newest.id} - {gone}
    assert [place for place in shown if place[0] in stayed] == [
        place for place in whole[20:] if place[0] in stayed
    ]
    assert gone not in {batch_id for batch_id, _ in shown}
    everything = places(page(database, order_by=order, page_size=1000))
    assert [place for place in everything if place in shown] == shown
    # What sorts after the token is shown, wherever it has come from.
    later = {running.id, added.id} & {batch_id for batch_id, _ in shown}
    assert later == (set() if order == "" else {running.id, added.id})


def test_a_list_of_one_batch_ends_with_it(database: Database) -> None:
    batch = run(database, item(axes=[SIZES]))
    first = page(database, batch=batch.id, page_size=5)
    delete(database, batch.id)
    with pytest.raises(NotFoundError, match=str(batch.id)):
        page(database, first.next_page_token, batch=batch.id, page_size=5)


def test_a_token_of_another_list_is_refused(database: Database) -> None:
    run(database, item(axes=[SIZES]))
    first = page(database, page_size=5)
    with pytest.raises(MalformedError, match="another filter or order"):
        page(database, first.next_page_token, page_size=5, order_by="num_gpus")


def test_points_are_filtered_by_their_number(database: Database) -> None:
    run(database, item(axes=[SIZES]))
    found = rows(database, where=("point:ge:3", "point:lt:6"), order_by="-point")
    assert [row.point for row in found] == [5, 4, 3]


def test_points_without_a_chunk_are_no_results(database: Database) -> None:
    batch = submit(database, item(axes=[speeds(60_000)], headline=None))
    record(database, batch.id, 0)
    record(database, batch.id, 1, failure="chunk 1 ended its process 3 times")
    end(database, batch.id)
    found = read(database, batch.id)
    assert (found.state, found.points_failed) == ("partially_failed", 10_000)
    last = rows(database, where=("point:ge:49998",))
    assert [row.point for row in last] == [49_998, 49_999]
    rising = rows(database, order_by="-slow_groups.0.speed_fraction", page_size=2)
    assert [row.point for row in rising] == [49_999, 49_998]
    with database.read() as connection:
        with pytest.raises(NotFoundError, match=r"point 50000 of batch .* was not computed"):
            results.read_one(connection, ACTOR, f"{batch.id}.50000")
        query = ComparisonQuery(
            baseline=batch.id, candidate=batch.id, order_by="-past.gpu_hours_lost"
        )
        compared = comparisons.compare(connection, ACTOR, query, page_size=3)
    assert all(row.past["gpu_hours_lost"] is not None for row in compared.items)


def test_rows_say_how_many_gpus_and_of_which_batch(database: Database) -> None:
    sizes = {"path": "num_gpus", "values": [64, 128]}
    run(database, item(axes=[sizes]), name="past")
    lone = run(database, item(axes=[speeds(2)]), name="new")
    found = rows(database, order_by="num_gpus")
    assert [(row.batch_name, row.num_gpus, row.inputs.get("num_gpus")) for row in found] == [
        ("past", 64, 64),
        ("past", 128, 128),
        *[("new", SEED["num_gpus"], None)] * 2,
    ]
    with database.read() as connection:
        detail = results.read_one(connection, ACTOR, f"{lone.id}.1")
    assert (detail.result.batch_name, detail.result.num_gpus) == ("new", 1024)


def test_a_batch_without_points_is_an_empty_list(database: Database) -> None:
    batch = submit(database, item(axes=[SIZES]))
    cancel(database, batch.id)
    assert rows(database, batch=batch.id) == []
    assert rows(database, order_by="-point") == []
