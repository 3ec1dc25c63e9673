import numpy as np
import pytest

from service.model.columns import Columns, columns_of, joined
from service.model.exchange.buckets import bucket_lines, last_bucket_ms, runs_of
from service.model.exchange.idle_knee import growth_of_lines, hidden_growth, idle_ratio
from service.model.exchange.lines import Lines
from service.model.exchange.round_lines import local_lines, stale_lines
from service.model.exchange.sharding import sharded_lines
from service.model.fields import Scenario
from service.model.parts.communication import Communication, Fixed, Link, Ring
from service.model.parts.overlap import Buckets, Fsdp, NoOverlap, Overlap
from service.model.parts.synchronization import (
    BoundedStaleness,
    EveryStep,
    LocalSteps,
    Synchronization,
)

EVERY = EveryStep()


def _columns(
    communication: Communication, overlap: Overlap, synchronization: Synchronization = EVERY
) -> Columns:
    return columns_of(
        Scenario(
            num_gpus=8,
            compute_ms=300,
            load_ms=30,
            communication=communication,
            overlap=overlap,
            synchronization=synchronization,
        )
    )


def _ring(size: float) -> Ring:
    return Ring(link=Link(latency_us=0, bandwidth_gigabytes_per_s=1), message_bytes=size)


def test_knee_of_equal_buckets() -> None:
    overlaps = [
        Buckets(num_buckets=2),
        Buckets(num_buckets=40),
        Buckets(num_buckets=10, contention_fraction=0.189),
    ]
    columns = joined([_columns(Fixed(allreduce_ms=80), overlap) for overlap in overlaps])
    # communication.md 3.2: 1.5 where two thirds are backward, whatever the number of buckets.
    np.testing.assert_allclose(idle_ratio(columns), [1.5, 1.5, 1.5 / 1.189])
    np.testing.assert_allclose(hidden_growth(columns), [2.5, 2.5, 2.5 * 1.189])


def test_nothing_hidden_and_nothing_exchanged() -> None:
    columns = joined(
        [
            _columns(Fixed(allreduce_ms=80), NoOverlap()),
            _columns(Fixed(allreduce_ms=80), Buckets(num_buckets=1)),
            _columns(Fixed(allreduce_ms=80), NoOverlap(), LocalSteps(steps=10)),
            _columns(_ring(1e8), Fsdp(num_layers=4, prefetch_layers=0)),
            _columns(Fixed(allreduce_ms=0), Buckets(num_buckets=4)),
            _columns(_ring(0), Fsdp(num_layers=4)),
        ]
    )
    assert hidden_growth(columns).tolist() == [0, 0, 0, 0, np.inf, np.inf]
    assert np.isnan(idle_ratio(columns)).all()


@pytest.mark.parametrize(
    "overlap",
    [Buckets(bucket_shares=(1, 2, 3, 2)), Buckets(num_buckets=7, contention_fraction=0.4)],
)
def test_at_the_knee_only_the_last_bucket_shows(overlap: Buckets) -> None:
    size = 1e7
    growth = hidden_growth(_columns(_ring(size), overlap))[0]
    for scale, idles in ((0.999, False), (1.001, True)):
        columns = _columns(_ring(size * growth * scale), overlap)
        runs = runs_of(columns)
        gamma = overlap.contention_fraction
        before = (runs.num_buckets * runs.cost_ms).sum() - last_bucket_ms(runs)[0]
        busy = 300 + gamma / (1 + gamma) * before + last_bucket_ms(runs)[0]
        step = bucket_lines(columns).value(np.ones(1))[0]
        assert (step > busy * (1 + 1e-9)) == idles
        assert (idle_ratio(columns)[0] > 300 / (1.75 * size * growth * scale / 1e6)) == idles


@pytest.mark.parametrize("ahead", [1, 3])
def test_at_the_knee_sharded_layers_show_their_ends(ahead: int) -> None:
    overlap = Fsdp(num_layers=12, prefetch_layers=ahead)
    growth = hidden_growth(_columns(_ring(1e7), overlap))[0]
    for scale, idles in ((0.999, False), (1.001, True)):
        size = 1e7 * growth * scale
        half = 0.875 * size / 12 / 1e6
        step = sharded_lines(_columns(_ring(size), overlap)).value(np.ones(1))[0]
        assert (step > (300 + 2 * half) * (1 + 1e-9)) == idles


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize(
    "rounds",
    [
        LocalSteps(steps=20, fragments=4, overlap_steps=3, release_fraction=1 / 3),
        LocalSteps(steps=20, fragments=2, release_fraction=0.25),
        BoundedStaleness(staleness=2, delay_ms=70),
    ],
)
def test_at_the_knee_of_rounds_nobody_waits(
    rounds: LocalSteps | BoundedStaleness, *, hides: bool
) -> None:
    overlap = NoOverlap(load_prefetch=hides)
    growth = hidden_growth(_columns(_ring(1e7), overlap, rounds))[0]
    lines_of = local_lines if isinstance(rounds, LocalSteps) else stale_lines
    for scale, idles in ((0.999, False), (1.001, True)):
        columns = _columns(_ring(1e7 * growth * scale), overlap, rounds)
        assert (lines_of(columns).value(np.ones(1))[0] > 300 + 1e-9) == idles


def test_a_delay_beyond_the_staleness_leaves_nothing() -> None:
    columns = _columns(_ring(1e7), NoOverlap(), BoundedStaleness(staleness=1, delay_ms=1e4))
    assert hidden_growth(columns).tolist() == [0]


def test_growth_of_points_with_fewer_lines() -> None:
    lines = Lines(np.array([[1.0, 3.0], [3.0, 3.0]]), np.array([[2.0, 5.0], [0.0, 5.0]]))
    assert growth_of_lines(lines).tolist() == [1.0, 0.0]
