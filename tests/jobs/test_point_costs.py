"""What points cost: clusters that are drawn, estimates, and chunks that are cut to it."""

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from service.db import batches as batch_rows
from service.db import queue_state
from service.db.engine import Connection, Database, OperationalError
from service.errors import InvalidError
from service.jobs import batches, point_faults
from service.jobs.batch_documents import BatchOut, BatchPlanOut, RetryIn
from service.jobs.batch_retries import retry
from service.jobs.batch_runs import ChunkWork, load_chunk
from service.jobs.chunks import CHUNK_POINTS, compute_chunk
from service.jobs.compute_pool import ComputePool
from service.jobs.planning import Plan
from service.jobs.point_costs import work_of
from service.jobs.workflows import HandedOverError, Workflows
from service.model.axes import decode_axes
from service.model.grid import Grid, build_grid
from service.model.scenario import decode_scenario
from service.model.simulated_points import rank_steps
from service.settings import Limits
from tests.jobs.batch_bodies import ACTOR, SEED, cancel, item, read, run, speeds, submit
from tests.jobs.chunk_steps import end, record
from tests.jobs.completed import complete

NORMAL = {"kind": "normal", "cv": 0.05}
CV = "variability.persistent.cv"
SMALL_CHUNK = 10_000


def grid(variability: dict[str, Any], *axes: dict[str, Any], **changes: Any) -> Grid:
    scenario = {**SEED, "variability": variability, **changes}
    return build_grid(decode_scenario(scenario), decode_axes(list(axes)), max_points=10**9)


@pytest.mark.parametrize(
    ("variability", "is_sampled"),
    [
        ({}, False),
        ({"transient": NORMAL}, False),
        ({"persistent": NORMAL}, False),
        ({"persistent": NORMAL, "node": NORMAL}, False),
        ({"persistent": NORMAL, "common": NORMAL}, False),
        ({"transient": NORMAL, "common": NORMAL, "replica": NORMAL}, False),
        ({"persistent": NORMAL, "transient": NORMAL}, True),
        ({"node": NORMAL, "transient": NORMAL}, True),
        ({"node": NORMAL, "replica": NORMAL}, True),
        ({"persistent": NORMAL, "spikes": {"probability": 0.001, "slowdown": 2}}, True),
        ({"persistent": NORMAL, "spikes": {"probability": 0, "slowdown": 2}}, False),
        ({"persistent": {"kind": "normal", "cv": 0}, "transient": NORMAL}, False),
    ],
)
def test_points_are_drawn_where_clusters_and_steps_differ(
    variability: dict[str, Any], *, is_sampled: bool
) -> None:
    work = work_of(grid(variability, {"path": "load_ms", "values": [0, 1, 2]}, draws=500))
    assert work.draws == (1500 if is_sampled else 0)
    assert work.num_points == 3


def test_only_the_points_that_are_drawn_count() -> None:
    off = {"path": "variability.persistent", "values": [None, NORMAL, {"kind": "gamma", "cv": 0}]}
    work = work_of(grid({"transient": NORMAL}, off, {"path": "num_gpus", "values": [8, 64]}))
    assert work.draws == 2 * 1000
    whole = {"path": "variability", "values": [{}, {"node": NORMAL, "transient": NORMAL}]}
    assert work_of(grid({}, whole)).draws == 1000
    plain = work_of(grid({"transient": NORMAL}, speeds(100)))
    several = work_of(grid({"transient": NORMAL, "common": NORMAL}, speeds(100)))
    drawn = work_of(grid({"transient": NORMAL, "persistent": NORMAL}, speeds(100)))
    more = work_of(grid({"transient": NORMAL, "persistent": NORMAL}, speeds(100), draws=4000))
    assert plain.core_s < several.core_s < drawn.core_s < more.core_s


def test_lasting_sources_beside_episodes_take_longer_but_draw_no_more() -> None:
    episodes = {"rate_per_gpu_day": 0.05, "mean_hours": 4, "severity": 1.5}
    spikes = {"probability": 0.001, "slowdown": 2}
    several = {"transient": NORMAL, "persistent": NORMAL}
    every = {**several, "node": NORMAL}
    sizes = {"path": "num_gpus", "values": [2048, 4096]}

    def each_s(variability: dict[str, Any], **asked: bool) -> float:
        return work_of(grid(variability, sizes), **asked).core_s / 2

    # As measured, within a factor of three.
    assert 0.07 < each_s({**every, "episodes": episodes}) < 0.6
    assert 0.03 < each_s({"persistent": NORMAL, "episodes": episodes}) < 0.2
    assert 0.03 < each_s({"persistent": NORMAL, "spikes": spikes}) < 0.2
    assert 0.015 < each_s(every) < 0.12
    assert each_s(several) < 0.015
    assert each_s({**every, "episodes": episodes}, with_spread=False) < 0.15
    found = grid({"persistent": NORMAL, "episodes": episodes}, sizes)
    assert work_of(found).draws == 0


def test_simulated_steps_count_as_draws_that_take_as_long() -> None:
    stale = {"kind": "bounded_staleness", "staleness": 1}
    delays = {"path": "synchronization.delay_ms", "values": [0, 50, 100]}
    sizes = {"path": "num_gpus", "values": [8, 16]}
    slow = {"slow_groups": [{"count": 10, "speed_fraction": 0.9}]}
    found = grid({"transient": NORMAL}, delays, sizes, synchronization=stale, draws=16)
    steps = rank_steps(found.columns(0, 6))
    work = work_of(found)
    assert work.draws == sum(-(-int(number) // 125) for number in steps) > 0
    assert work.core_s > 6 * work_of(grid({"transient": NORMAL}, sizes)).core_s
    # What breaks a rule is not simulated, nor is what is steady.
    broken = grid({"transient": NORMAL}, delays, sizes, synchronization=stale, draws=16, **slow)
    half = rank_steps(broken.columns(0, 6).part(np.array([1, 3, 5])))
    assert work_of(broken).draws == sum(-(-int(number) // 125) for number in half)
    assert work_of(grid({}, delays, synchronization=stale)).draws == 0
    ways = {"path": "synchronization", "values": [{"kind": "every_step"}, stale]}
    assert work_of(grid({"transient": NORMAL}, ways, num_gpus=8, slow_groups=[])).draws > 0


def test_pipelines_count_by_their_sizes_and_by_what_is_drawn_of_them() -> None:
    piped = {"schedule": "zb1p", "stages": 4, "microbatches": 8}
    plain = {"num_gpus": 64, "slow_groups": []}
    sizes = {"path": "pipeline.microbatches", "values": [8, 16, 800]}
    few = work_of(grid({}, sizes, pipeline=piped, **plain))
    alone = work_of(grid({}, pipeline=piped, **plain))
    # M + P, and P M / 40 to order: steps of 0.4 ms
    assert few.core_s - 3 / 50_000 == pytest.approx(4e-4 * (1.1 * 824 + 12), rel=1e-9)
    assert (few.draws, alone.draws) == (0, 0)
    ways = {"path": "pipeline", "values": [None, piped]}
    varied = {"transient": NORMAL}
    found = grid(varied, ways, **plain, draws=16)
    steps = rank_steps(found.columns(0, 2))
    assert steps[0] == 0
    assert work_of(found).draws == -(-int(steps[1]) // 125) > 0
    # Three stages leave no whole replicas: nothing is drawn of what breaks a rule.
    broken = {"path": "pipeline.stages", "values": [3]}
    assert work_of(grid(varied, broken, pipeline=piped, **plain, draws=16)).draws == 0


def drawn(num_points: int, **changes: Any) -> dict[str, Any]:
    """An item of points that are drawn; they share their sources, but not their lengths."""
    variability = {"transient": NORMAL, "persistent": NORMAL}
    return item(
        scenario={**SEED, "variability": variability, "draws": 16},
        axes=[{"path": CV, "logspace": {"start": 0.01, "stop": 0.1, "num": num_points}}],
        **changes,
    )


def check(database: Database, *items: dict[str, Any], limits: Limits) -> BatchPlanOut:
    with database.read() as connection:
        document = {"name": "test", "items": list(items)}
        return batches.check(connection, ACTOR, document, limits)


def test_the_clusters_of_a_batch_are_bounded(sqlite_database: Database) -> None:
    two = (drawn(30, custom_id="a"), drawn(20, custom_id="b"), item(axes=[speeds(1000)]))
    plan = check(sqlite_database, *two, limits=Limits(draws_per_batch=800))
    assert (plan.points_total, plan.draws_total) == (1050, 800)
    with pytest.raises(InvalidError) as error:
        check(sqlite_database, *two, limits=Limits(draws_per_batch=799))
    (fault,) = error.value.errors
    assert (fault.pointer, fault.code) == ("/items", "too_many_draws")
    assert "800 clusters" in fault.detail
    assert "799" in fault.detail


def test_the_estimate_knows_points_that_are_drawn(sqlite_database: Database) -> None:
    cheap = check(sqlite_database, item(axes=[speeds(5_000)]), limits=Limits())
    dear = check(sqlite_database, drawn(5_000), limits=Limits())
    assert cheap.estimated_s < 0.3
    assert dear.estimated_s > 10 * cheap.estimated_s


def chunk_points(database: Database, batch: BatchOut) -> int:
    with database.read() as connection:
        row = batch_rows.find_batch(connection, batch.id)
    assert row is not None
    found: int = row.chunk_points
    return found


def test_chunks_are_as_long_as_their_points_allow(sqlite_database: Database) -> None:
    plain = submit(sqlite_database, item(axes=[speeds(60_000)]))
    short = submit(sqlite_database, drawn(20))
    long = submit(sqlite_database, drawn(20_000))
    mixed = submit(sqlite_database, item(axes=[speeds(60_000)]), drawn(4_000, custom_id="drawn"))
    found = [chunk_points(sqlite_database, batch) for batch in (plain, short, long, mixed)]
    assert found == [CHUNK_POINTS, CHUNK_POINTS, SMALL_CHUNK, SMALL_CHUNK]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut any batch as one whose points take long: these are tried with cheap ones."""
    monkeypatch.setattr(Plan, "chunk_points", SMALL_CHUNK)


def failing(num_points: int) -> dict[str, Any]:
    """70 slow GPUs, so that clusters of 64 break a rule and those of 128 do not."""
    slow = [{"count": 70, "speed_fraction": 0.5}]
    return item(
        scenario={**SEED, "slow_groups": slow},
        axes=[{"path": "num_gpus", "values": [64, 128]}, speeds(num_points // 2)],
    )


@pytest.mark.usefixtures("small_chunks")
def test_progress_and_errors_of_small_chunks(database: Database) -> None:
    batch = submit(database, failing(24_000))
    with database.read() as connection:
        (queued,) = queue_state.unfinished_batches(connection)
    assert int(queued.num_chunks) == 3
    record(database, batch.id, 0)
    assert (read(database, batch.id).points_done, read(database, batch.id).points_failed) == (
        *(10_000, 10_000),
    )
    record(database, batch.id, 2)
    assert read(database, batch.id).points_done == 14_000
    record(database, batch.id, 1, failure="chunk 1 cannot be stored")
    end(database, batch.id)
    whole = read(database, batch.id)
    assert (whole.state, whole.points_done, whole.points_failed) == (
        "partially_failed",
        24_000,
        20_000,
    )
    token, seen = None, []
    with database.read() as connection:
        while True:
            page = point_faults.list_faults(
                connection, ACTOR, batch.id, page_size=7_000, page_token=token
            )
            seen += [(fault.point, fault.code) for fault in page.items]
            token = page.next_page_token
            if token is None:
                break
    assert [point for point, _ in seen] == list(range(20_000))
    assert {code for point, code in seen if point < 10_000} == {"too_many_slow_gpus"}
    assert {code for point, code in seen if point >= 10_000} == {"chunk_not_computed"}
    with database.write() as connection:
        again = retry(connection, ACTOR, batch.id, RetryIn(), Limits())
    assert chunk_points(database, again) == SMALL_CHUNK


@pytest.mark.usefixtures("small_chunks")
def test_a_cancellation_keeps_the_small_chunks_that_are_done(database: Database) -> None:
    batch = submit(database, item(axes=[speeds(30_000)]))
    record(database, batch.id, 0)
    assert cancel(database, batch.id).state == "canceling"
    # It ends with no chunk more: the next one is not begun.
    complete(database)
    record(database, batch.id, 1)
    assert end(database, batch.id)
    stopped = read(database, batch.id)
    assert (stopped.state, stopped.points_done) == ("canceled", 10_000)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_of_another_size_are_not_taken_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(database, item(axes=[speeds(12_000)]))
    same = run(database, item(axes=[speeds(12_000)]))
    monkeypatch.setattr(Plan, "chunk_points", CHUNK_POINTS)
    other = run(database, item(axes=[speeds(12_000)]))
    assert same.reused_from == first.id
    assert other.reused_from is not None
    assert {read(database, batch.id).points_done for batch in (first, same, other)} == {12_000}


def load(database: Database, batch: BatchOut) -> ChunkWork:
    with database.read() as connection:
        work = load_chunk(connection, batch.id, 0, datetime.now(UTC))
    assert work is not None
    return work


class HerePool:
    """Stands where the compute processes are: acts at once, and notes which points."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def submit(self, act: Any) -> "Future[Any]":
        self.spans.append(act.args[2:4])
        found: Future[Any] = Future()
        found.set_result(act())
        return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> HerePool:
    pool = HerePool()
    monkeypatch.setattr(ComputePool, "_ready", lambda _: pool)
    return pool


@pytest.mark.usefixtures("small_chunks")
def test_pieces_of_a_chunk_make_its_bits(database: Database, here: HerePool) -> None:
    whole = submit(database, failing(12_000), item(custom_id="b"), reuse=False)
    work = load(database, whole)
    asked = []
    found = ComputePool(1).compute(work, lambda: asked.append(len(here.spans)))
    starts, ends = zip(*here.spans, strict=True)
    assert (starts[0], ends[-1]) == (0, SMALL_CHUNK)
    assert list(starts[1:]) == list(ends[:-1])
    assert len(here.spans) > 2
    assert asked == list(range(len(here.spans)))
    expected = compute_chunk(work.chunk, work.spans, work.columns, work.chunk_points)
    assert found == expected
    assert found.progress == [(0, 10_000, 6_000)]


@pytest.mark.usefixtures("small_chunks", "here")
def test_a_cancelled_chunk_is_given_up_half_way(database: Database, here: HerePool) -> None:
    batch = submit(database, item(axes=[speeds(20_000)]))
    pool = ComputePool(1)
    workflows = Workflows(database, pool, "test", transact_on(database))

    def cancel_after_two(work: ChunkWork, between: Any, keeper: Any) -> Any:
        def check() -> None:
            if len(here.spans) == 2:
                cancel(database, batch.id)
            between()

        return ComputePool.compute(pool, work, check, keeper)

    pool.compute = cancel_after_two  # type: ignore[method-assign,assignment]
    workflows.run_chunk(batch.id, 0)
    assert len(here.spans) == 2
    stopped = read(database, batch.id)
    assert (stopped.state, stopped.points_done, stopped.points_failed) == ("canceled", 0, 0)


@pytest.mark.usefixtures("small_chunks")
def test_a_process_that_stops_gives_a_long_chunk_to_others(
    sqlite_database: Database, here: HerePool
) -> None:
    batch = submit(sqlite_database, item(axes=[speeds(20_000)]))
    pool = ComputePool(1)
    workflows = Workflows(sqlite_database, pool, "test", transact_on(sqlite_database))
    submit_act = here.submit

    def stopping(act: Any) -> "Future[Any]":
        workflows.stop()
        return submit_act(act)

    here.submit = stopping  # type: ignore[method-assign]
    with pytest.raises(HandedOverError):
        workflows.run_chunk(batch.id, 0)
    assert len(here.spans) == 1
    assert read(sqlite_database, batch.id).points_done == 0
    complete(sqlite_database)
    assert read(sqlite_database, batch.id).state == "succeeded"


@pytest.mark.usefixtures("small_chunks")
def test_a_database_that_is_away_does_not_end_a_long_chunk(
    sqlite_database: Database, here: HerePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = submit(sqlite_database, item(axes=[speeds(10_000)]))

    def away(*_: object) -> bool:
        raise OperationalError("SELECT", None, Exception("gone"))

    monkeypatch.setattr("service.jobs.batch_runs.is_wanted", away)
    workflows = Workflows(sqlite_database, ComputePool(1), "test", transact_on(sqlite_database))
    workflows.run_chunk(batch.id, 0)
    assert len(here.spans) > 2
    assert read(sqlite_database, batch.id).state == "succeeded"


def transact_on(database: Database) -> Callable[[Callable[[Connection], None]], None]:
    def transact(write: Callable[[Connection], None]) -> None:
        with database.write() as connection:
            write(connection)

    return transact


def test_points_that_take_long_are_computed_in_a_process(
    sqlite_database: Database, here: HerePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for points in (SMALL_CHUNK, CHUNK_POINTS):
        monkeypatch.setattr(Plan, "chunk_points", points)
        batch = submit(sqlite_database, item(axes=[speeds(100)]), reuse=False)
        found = ComputePool(1).compute(load(sqlite_database, batch))
        assert found.progress == [(0, 100, 0)]
    # The short one was computed here, where it costs less than to send it.
    assert here.spans == [(0, 4), (4, 20), (20, 84), (84, 100)]
