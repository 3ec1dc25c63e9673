from typing import NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from service.calibration.findings import OverlapAudit
from service.calibration.options import CalibrationOptions
from service.calibration.overlap import audit_of
from service.calibration.timings import Collectives, Timings
from tests.calibration.overlap_simulator import Job, Run, collectives_of, simulate, timings_of
from tests.calibration.reading.kineto_traces import (
    all_reduce,
    gemm,
    opened,
    read,
    step,
    whole,
)

# Reference notes, communication, result 10: forward 0.1 s, backward 0.2 s, ten buckets of 0.1 s in
# all, one rank 1.3 times slower: 90 % are hidden, the fast ranks' own ratio says 64 %.
SLOW_RANK = Job(slow=1.3)


def audit(timings: Timings, **said: float) -> OverlapAudit:
    found = audit_of(timings, CalibrationOptions(**said))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_slow_rank_misleads_the_naive_ratio_but_not_the_audit() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    assert run.hidden_share == pytest.approx(0.9)
    found = audit(timings_of(run, list(range(8)), 8))
    assert (found.verdict, found.route) == ("overlaps", "traces")
    assert found.hidden_share.low == pytest.approx(0.9)
    assert found.hidden_share.high == pytest.approx(0.9)
    assert found.communication_ms is not None
    assert found.communication_ms.value == pytest.approx(100)
    assert found.exposed_ms is not None
    assert found.exposed_ms.value == pytest.approx(10)
    # Each of seven ranks of eight is in communication for 280 ms
    assert found.wait_ms is not None
    assert found.wait_ms.value == pytest.approx(7 / 8 * 180)
    assert found.num_collectives_per_step == pytest.approx(10)
    assert any("waiting for later ranks" in reason for reason in found.reasons)


def test_the_naive_ratio_of_a_fast_rank_is_off_by_26_points() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    fast = audit(timings_of(run, [3], 8)).hidden_share
    assert fast.naive_ratio == pytest.approx(0.18 / 0.28)
    assert run.hidden_share - (fast.naive_ratio or 0) == pytest.approx(0.26, abs=0.005)
    # Alone that rank proves nothing, and says so
    assert (fast.low, fast.high) == (0, 1)
    slow = audit(timings_of(run, [0], 8)).hidden_share
    assert slow.naive_ratio == pytest.approx(0.9)


@pytest.mark.parametrize("slow", [1.0, 1.3, 2.0])
def test_reduction_after_the_backward_pass_does_not_overlap(slow: float) -> None:
    run = simulate(Job(num_buckets=1, slow=slow, compute_cv=0.05), 12, 1)
    found = audit(timings_of(run, list(range(8)), 8))
    assert found.verdict == "does_not_overlap"
    assert found.hidden_share.low == 0
    assert found.hidden_share.high == pytest.approx(0, abs=1e-9)


def one_kernel(
    durations: list[list[float]], compute: list[list[tuple[float, float]]], name: str = "nccl"
) -> Collectives:
    """One collective a step: per rank and step, its duration and compute before its end."""
    num_steps, num_ranks = len(durations), len(durations[0])
    pairs = [compute[s][r] for r in range(num_ranks) for s in range(num_steps)]
    count = num_steps * num_ranks
    return Collectives(
        rank=np.repeat(np.arange(num_ranks), num_steps),
        step=np.tile(np.arange(num_steps), num_ranks),
        order=np.zeros(count, np.int64),
        name=(name,) * count,
        members=np.zeros(count, np.int64),
        duration_ms=np.array(durations, float).T.ravel(),
        first=np.arange(count + 1),
        before_end_start_ms=np.array([pair[0] for pair in pairs], float),
        before_end_stop_ms=np.array([pair[1] for pair in pairs], float),
    )


def with_collectives(collectives: Collectives, world_size: int | None = None) -> Timings:
    run = simulate(Job(num_ranks=2), len(np.unique(collectives.step)), 0)
    ranks = np.unique(collectives.rank)
    timings = timings_of(run, [0, 1], world_size)
    return replace(timings, collectives=collectives, ranks=ranks)


def test_transfer_wholly_beside_compute_is_hidden_whoever_waits() -> None:
    durations = [[10.0, 14.0], [11.0, 10.0], [10.0, 10.0]]
    compute = [[(d, 0.0) for d in row] for row in durations]
    found = audit(with_collectives(one_kernel(durations, compute)))
    assert found.verdict == "overlaps"
    assert (found.hidden_share.low, found.hidden_share.high) == (1, 1)
    assert any("takes longer" in reason for reason in found.reasons)


def test_compute_beside_the_waiting_hides_nothing_of_the_transfer() -> None:
    # Rank 1 computes for 60 ms of its kernel's 70, but while it waits; the last 10 are the transfer
    durations = [[10.0, 70.0]] * 4
    compute = [[(10.0, 10.0), (70.0, 10.0)]] * 4
    found = audit(with_collectives(one_kernel(durations, compute)))
    assert found.verdict == "does_not_overlap"
    assert found.hidden_share.naive_ratio == pytest.approx(60 / 80)
    assert found.hidden_share.high == 0


def test_clocks_of_ranks_do_not_matter() -> None:
    run = simulate(Job(slow=1.2, compute_cv=0.04, transfer_cv=0.1), 9, 5)
    random = np.random.default_rng(8)
    skew = random.uniform(-1e6, 1e6, size=(1, 8))
    shifted = Run(
        run.start + skew[..., np.newaxis],
        run.stop + skew[..., np.newaxis],
        run.compute_end + skew,
        run.cost,
    )
    ranks = list(range(8))
    plain, moved = collectives_of(run, ranks), collectives_of(shifted, ranks)
    np.testing.assert_allclose(moved.before_end_stop_ms, plain.before_end_stop_ms, atol=1e-6)
    timings = timings_of(run, ranks, 8)
    before, after = audit(timings), audit(replace(timings, collectives=moved))
    assert after.hidden_share.low == pytest.approx(before.hidden_share.low, abs=1e-6)
    assert after.hidden_share.high == pytest.approx(before.hidden_share.high, abs=1e-6)


def test_without_the_slow_rank_only_bounds_are_left() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    found = audit(timings_of(run, [1, 2, 3], 8))
    assert found.verdict == "cannot_tell"
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert found.wait_ms is None
    assert found.communication_ms is not None
    # The shortest kernel that was seen holds the waiting for the slow rank
    assert found.communication_ms.value == pytest.approx(280)
    assert found.communication_ms.low is None
    names = [experiment.name for experiment in found.experiments]
    assert names == [
        "profile_all_ranks",
        "isolated_collective",
        "no_sync_run",
        "throttled_bandwidth",
    ]
    assert any("3 of 8 ranks were profiled" in reason for reason in found.reasons)


def test_the_transfer_alone_makes_a_part_of_the_ranks_enough_where_the_last_is_among_them() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    found = audit(timings_of(run, [0, 1], 8), isolated_communication_ms=99)
    # At most 10 and at least 10 - 2 (100 - 99) of 99 ms are exposed
    assert found.hidden_share.low == pytest.approx(1 - 10 / 99)
    assert found.hidden_share.high == pytest.approx(1 - 8 / 99)
    assert found.verdict == "overlaps"
    assert "isolated_collective" not in [experiment.name for experiment in found.experiments]
    assert found.communication_ms is not None
    assert found.communication_ms.low == pytest.approx(99)


def test_a_step_that_a_rank_has_not_is_left_out_and_not_guessed() -> None:
    run = simulate(SLOW_RANK, 6, 0)
    timings = timings_of(run, list(range(8)), 8)
    every = timings.collectives
    assert every is not None
    keeps = ~((every.rank == 0) & (every.step == 2))
    counts = np.diff(every.first)
    kept = replace(
        every,
        **{name: getattr(every, name)[keeps] for name in ("rank", "step", "order", "members")},
        name=every.name[: int(keeps.sum())],
        duration_ms=every.duration_ms[keeps],
        first=np.concatenate([[0], np.cumsum(counts[keeps])]),
        before_end_start_ms=every.before_end_start_ms[np.repeat(keeps, counts)],
        before_end_stop_ms=every.before_end_stop_ms[np.repeat(keeps, counts)],
    )
    found = audit(replace(timings, collectives=kept))
    assert found.hidden_share.low == pytest.approx(0.9)
    assert "1 steps in which not all ranks were seen are left out" in found.reasons


def test_collectives_of_other_names_are_not_matched() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    timings = timings_of(run, [0, 1], 2)
    every = timings.collectives
    assert every is not None
    names = tuple(f"of rank {rank}" for rank in every.rank)
    found = audit(replace(timings, collectives=replace(every, name=names)))
    assert found.verdict == "cannot_tell"
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)


def test_order_of_different_collectives_may_differ_between_ranks() -> None:
    run = simulate(Job(num_ranks=2, slow=1.3), 5, 0)
    timings = timings_of(run, [0, 1], 2)
    every = timings.collectives
    assert every is not None
    # Each bucket has a name of its own; rank 1 lists them backwards
    names = tuple(f"bucket {order}" for order in every.order)
    order = np.where(every.rank == 1, 9 - every.order, every.order)
    found = audit(replace(timings, collectives=replace(every, name=names, order=order)))
    assert found.hidden_share.low == pytest.approx(0.9)


def test_groups_of_different_ranks_have_every_ranks_share_inside() -> None:
    """Two groups of two ranks: one hides all of its transfer, the other none."""
    hidden = one_kernel([[10, 12]] * 4, [[(10, 0), (12, 0)]] * 4, "nccl of group 1")
    open_ = one_kernel([[10, 12]] * 4, [[(10, 10), (12, 12)]] * 4, "nccl of group 2")
    arrays = ("step", "order", "duration_ms", "before_end_start_ms", "before_end_stop_ms")
    both = replace(
        hidden,
        **{name: np.concatenate([getattr(c, name) for c in (hidden, open_)]) for name in arrays},
        rank=np.concatenate([hidden.rank, open_.rank + 2]),
        name=hidden.name + open_.name,
        members=np.full(16, 2),
        first=np.arange(17),
    )
    found = audit(with_collectives(both, 4))
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert found.verdict == "cannot_tell"
    assert any("different collectives" in reason for reason in found.reasons)
    # One kernel each: the transfer of 10 ms is that of all
    assert found.communication_ms is not None
    assert found.communication_ms.value == pytest.approx(10)
    # Where the group's size is not known, the other two ranks may be missing from it
    unknown = replace(both, members=np.zeros(16, np.int64))
    assert audit(with_collectives(unknown, 4)).wait_ms is None


def test_the_step_waits_for_the_group_that_transfers_for_longest() -> None:
    """Two pairs of ranks, of 10 and of 2 ms; without names nothing tells which rank is of which."""
    kernels = one_kernel([[10, 11, 3, 2]] * 4, [[(10, 0), (11, 0), (3, 0), (2, 0)]] * 4)
    pairs = replace(kernels, members=np.full(16, 2))
    named = tuple(f"nccl of group {rank // 2}" for rank in pairs.rank)
    found = audit(with_collectives(replace(pairs, name=named), 4)).communication_ms
    assert found is not None
    assert found.value == pytest.approx(10)
    assert found.low == pytest.approx(10)
    found = audit(with_collectives(pairs, 4)).communication_ms
    assert found is not None
    # At most what each kernel takes
    assert found.value == pytest.approx((10 + 11 + 3 + 2) / 4)
    assert found.low is None
    assert found.method == "upper_bound_of_seen_ranks"


def test_unequal_numbers_of_one_name_are_not_matched_by_their_order() -> None:
    """Rank 1 sends twice and rank 0 once: which of the two is the other's, nothing tells."""
    sent = one_kernel([[10, 12]] * 4, [[(10, 0), (12, 0)]] * 4)
    again = one_kernel([[10, 14]] * 4, [[(10, 0), (14, 0)]] * 4)
    arrays = ("rank", "step", "duration_ms", "before_end_start_ms", "before_end_stop_ms")
    both = replace(
        sent,
        **{
            name: np.concatenate([getattr(sent, name), getattr(again, name)[4:]]) for name in arrays
        },
        order=np.repeat([0, 1], [8, 4]),
        name=("ncclDevKernel_SendRecv",) * 12,
        members=np.full(12, 2),
        first=np.arange(13),
    )
    found = audit(with_collectives(both, 2))
    assert found.wait_ms is None
    assert found.verdict == "cannot_tell"
    assert found.communication_ms is not None
    # At most: 10 on the one, 12 + 14 on the other
    assert found.communication_ms.value == pytest.approx((10 + 26) / 2)
    assert found.communication_ms.low is None


def traces_of(run: Run, shifts_us: list[float]) -> Timings:
    """The same through files, each rank with a clock of its own."""
    files = []
    for rank, shift in enumerate(shifts_us):
        events, at = [], shift
        for index in range(len(run.stop)):
            length = float(run.stop[index, 0, -1]) * 1e3
            events.append(step(index, at, length))
            end = float(run.compute_end[index, rank]) * 1e3
            events += [gemm(at + part * end / 4, end / 4) for part in range(4)]
            pairs = zip(run.start[index, rank], run.stop[index, rank], strict=True)
            events += [
                all_reduce(at + float(begin) * 1e3, float(stop - begin) * 1e3)
                for begin, stop in pairs
            ]
            at += length
        files.append(opened(whole(events, rank, len(shifts_us)), f"rank{rank}.json"))
    return read(*files)


def test_traces_of_unaligned_clocks_give_the_audit_of_what_was_simulated() -> None:
    run = simulate(Job(num_ranks=4, slow=1.3, compute_cv=0.02, transfer_cv=0.1), 6, 3)
    direct = audit(timings_of(run, list(range(4)), 4)).hidden_share
    random = np.random.default_rng(2)
    for _ in range(2):
        shifts = [float(shift) for shift in random.uniform(1e9, 1e10, size=4)]
        found = audit(traces_of(run, shifts)).hidden_share
        assert found.low == pytest.approx(direct.low, abs=1e-5)
        assert found.high == pytest.approx(direct.high, abs=1e-5)
        assert found.naive_ratio == pytest.approx(direct.naive_ratio, abs=1e-5)
        assert found.low <= run.hidden_share <= found.high


@pytest.mark.parametrize("num_steps", [1, 2])
def test_one_or_two_steps_do_not_tell_how_steps_differ(num_steps: int) -> None:
    found = audit(timings_of(simulate(SLOW_RANK, num_steps, 0), list(range(8)), 8))
    assert found.verdict == "cannot_tell"
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert "more_steps" in [experiment.name for experiment in found.experiments]
    assert any(f"there are {num_steps} whole steps" in reason for reason in found.reasons)


def test_collectives_without_any_duration_tell_nothing() -> None:
    nothing = one_kernel([[0.0, 0.0]] * 4, [[(0.0, 0.0)] * 2] * 4)
    found = audit(with_collectives(nothing))
    assert (found.hidden_share.low, found.hidden_share.high) == (0, 1)
    assert found.hidden_share.naive_ratio == 0


def test_a_no_sync_run_that_was_made_is_not_asked_for_again() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    found = audit(timings_of(run, list(range(8)), 8), no_communication_step_ms=390)
    assert [experiment.name for experiment in found.experiments] == ["throttled_bandwidth"]


def test_a_no_sync_run_tells_what_is_exposed_whoever_was_profiled() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    some = timings_of(run, [1, 2, 3], 8)
    # Steps of 400 ms, of which the slow rank computes for 390; the transfer is 99 to 280 ms
    found = audit(some, no_communication_step_ms=390, isolated_communication_ms=99).hidden_share
    assert found.low == pytest.approx(1 - 10 / 99)
    assert found.high == pytest.approx(1 - 10 / 280)
    # Without the transfer only its upper bound helps
    found = audit(some, no_communication_step_ms=150).hidden_share
    assert found.low == 0
    assert found.high == pytest.approx(1 - 250 / 280)
    assert audit(some, no_communication_step_ms=130).verdict == "does_not_overlap"


def test_contradictions_and_unknown_steps_leave_what_traces_say() -> None:
    run = simulate(SLOW_RANK, 5, 0)
    some = timings_of(run, [0, 1], 8)
    said = {"isolated_communication_ms": 99.0, "no_communication_step_ms": 310.0}
    # By traces 10 of 99 ms are exposed, by the run 90 of 99 to 100
    found = audit(some, **said).hidden_share
    assert found.low == pytest.approx(1 - 90 / 99)
    assert found.high == pytest.approx(1 - 8 / 99)
    alone = audit(some, isolated_communication_ms=99).hidden_share
    nothing = np.full((5, 2), np.nan)
    for step_ms in (None, nothing):
        assert audit(replace(some, step_ms=step_ms), **said).hidden_share == alone
    few = timings_of(simulate(SLOW_RANK, 2, 0), [0, 1], 8)
    assert audit(few, **said).hidden_share.high == 1


def random_job(random: np.random.Generator) -> Job:
    return Job(
        num_ranks=int(random.integers(2, 17)),
        num_buckets=int(random.integers(1, 13)),
        transfer_ms=float(random.uniform(20, 400)),
        slow=float(random.choice([1.0, 1.0, 1.1, 1.3, 1.5])),
        compute_cv=float(random.uniform(0, 0.1)),
        transfer_cv=float(random.uniform(0, 0.3)),
        carry_over=float(random.choice([0.0, 0.4])),
    )


class Rates(NamedTuple):
    """Of the truth inside: all ranks; half of them; these with more that is known."""

    all_ranks: float
    half: float
    half_with_transfer: float
    half_with_no_sync: float


def coverage(num_cases: int, num_truth_steps: int) -> Rates:
    inside = np.zeros((num_cases, len(Rates._fields)), bool)
    for case in range(num_cases):
        random = np.random.default_rng(1_000 + case)
        job = random_job(random)
        long = simulate(job, num_truth_steps, 50_000 + case)
        truth = long.hidden_share
        run = simulate(job, int(random.choice([3, 5, 10, 20, 40])), case)
        ranks = list(range(job.num_ranks))
        seen = sorted(random.choice(job.num_ranks, max(1, job.num_ranks // 2), replace=False))
        some = timings_of(run, [int(rank) for rank in seen], job.num_ranks)
        alone = job.transfer_ms * float(random.choice([0.5, 0.8, 1.0]))
        silent = float(long.compute_end.max(axis=1).mean())
        audits = (
            audit(timings_of(run, ranks, job.num_ranks)),
            audit(some),
            audit(some, isolated_communication_ms=alone),
            audit(some, isolated_communication_ms=alone, no_communication_step_ms=silent),
        )
        for place, found in enumerate(audits):
            share = found.hidden_share
            inside[case, place] = share.low - 1e-9 <= truth <= share.high + 1e-9
    return Rates(*(float(rate) for rate in inside.mean(axis=0)))


def least_rate(rate: float, num_cases: int) -> float:
    """Three standard errors below."""
    return rate - 3 * float(np.sqrt(rate * (1 - rate) / num_cases))


def test_the_truth_is_inside_at_the_stated_rate() -> None:
    rates = coverage(120, 600)
    assert rates.half == 1
    assert min(rates) >= least_rate(0.9, 120)


def test_the_truth_is_inside_at_the_stated_rate_in_many_cases() -> None:
    rates = coverage(1_500, 4_000)
    assert rates.half == 1
    assert min(rates) >= 0.9
