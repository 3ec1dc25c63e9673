"""Which measurement would settle the most of what step arithmetic leaves open.

Each one is tried: what it would find in the worlds that are still possible (the ends and the
middle of the interval) is put beside the other figures, and the intervals that are left are
averaged. They are named in the order in which one after the other narrows the interval most.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from service.calibration.findings import Experiment
from service.calibration.overlap_bounds import Bounds, bounds_of, known_of
from service.calibration.step_arithmetic import StepArithmetic

Name = Literal[
    "no_sync_run",
    "overlap_off",
    "isolated_collective",
    "synthetic_data",
    "throttled_bandwidth",
    "profile_all_ranks",
    "more_steps",
]
LEAST_GAIN: Final = 0.01
"""Of the width, below which an experiment is not worth its trouble."""
_FEWEST: Final = 0.25
"""Where the transfer could be anything down to nothing: the share of the longest that is tried."""
_SMALLEST_MS: Final = 1e-6

EXPERIMENTS: Final = (
    Experiment(
        name="isolated_collective",
        what_to_do="Time the same collectives alone, with the same sizes and ranks: nccl-tests, or "
        "the training loop with the compute left out. Give it as isolated_communication_ms.",
        what_it_tells="How long the transfer itself takes, without waiting for late ranks.",
    ),
    Experiment(
        name="no_sync_run",
        what_to_do="Run some hundred steps without synchronisation "
        "(DistributedDataParallel.no_sync) and give the slowest rank's step as "
        "no_communication_step_ms.",
        what_it_tells="How much longer a step is because of communication: all that is not hidden.",
    ),
    Experiment(
        name="overlap_off",
        what_to_do="Run some hundred steps with overlap switched off (one bucket larger than the "
        "model, or the reduction after the backward pass) and give the step as "
        "overlap_off_step_ms.",
        what_it_tells="How much shorter overlap makes a step; with the run without synchronisation "
        "also how long the transfer takes.",
    ),
    Experiment(
        name="synthetic_data",
        what_to_do="Run some hundred steps on data that are in the GPU's memory already, and give "
        "by how much the step gets shorter as load_ms, with load_is_prefetched false.",
        what_it_tells="How much of the step is loading, and how much of loading is hidden.",
    ),
    Experiment(
        name="more_steps",
        what_to_do="Average four times as many steps, which halves the standard errors.",
        what_it_tells="The same, with half of the noise.",
    ),
    Experiment(
        name="profile_all_ranks",
        what_to_do="Profile some ten steps on all ranks (torch.profiler) and calibrate with the "
        "traces.",
        what_it_tells="What runs beside each collective, and how long each rank waits in it.",
    ),
    Experiment(
        name="throttled_bandwidth",
        what_to_do="Halve the bandwidth (a limit of the network, or fewer channels by "
        "NCCL_MAX_NCHANNELS) and see by how much the step grows.",
        what_it_tells="Whether hidden communication stays hidden: the step grows by nothing while "
        "it is, and by all of the added transfer once it is not.",
    ),
)


class _World(NamedTuple):
    """What may be true, and what is known of it so far."""

    observed: StepArithmetic
    transfer_ms: float
    share: float


def experiments_for(observed: StepArithmetic, bounds: Bounds) -> list[Experiment]:
    """Those that narrow the interval, most useful first; then those that show it directly."""
    names: list[Name] = _by_gain(observed, bounds)
    if bounds.share.width >= LEAST_GAIN:
        names += ["profile_all_ranks", "throttled_bandwidth"]
    found = {experiment.name: experiment for experiment in EXPERIMENTS}
    return [found[name] for name in names]


def _by_gain(observed: StepArithmetic, bounds: Bounds) -> list[Name]:
    worlds = _worlds(observed, bounds)
    left = [name for name, (is_open, _) in _TRIED.items() if is_open(observed)]
    chosen: list[Name] = []
    width, worthwhile = bounds.share.width, 0
    while left:
        tried = {name: [_after(name, world) for world in worlds] for name in left}
        widths = {name: _mean_width(after) for name, after in tried.items()}
        best = min(left, key=widths.__getitem__)
        chosen.append(best)
        left.remove(best)
        worlds = tried[best]
        # Some settle nothing alone, but do so together with the next one.
        if widths[best] <= width - LEAST_GAIN:
            width, worthwhile = widths[best], len(chosen)
    return chosen[:worthwhile]


def _worlds(observed: StepArithmetic, bounds: Bounds) -> list[_World]:
    longest = bounds.transfer_ms.high
    shortest = max(bounds.transfer_ms.low, _FEWEST * longest)
    share = bounds.share
    most = known_of(observed).hidden_at_most.value
    return [
        _World(observed, transfer, min(hidden, most / transfer))
        for transfer, hidden in product(
            (shortest, longest), (share.low, (share.low + share.high) / 2, share.high)
        )
    ]


def _mean_width(worlds: Sequence[_World]) -> float:
    return sum(bounds_of(world.observed).share.width for world in worlds) / len(worlds)


def _after(name: Name, world: _World) -> _World:
    return world._replace(observed=_TRIED[name][1](world))


def _isolated(world: _World) -> StepArithmetic:
    return replace(world.observed, isolated_communication_ms=world.transfer_ms)


def _no_sync(world: _World) -> StepArithmetic:
    exposed = world.transfer_ms * (1 - world.share)
    step = max(_SMALLEST_MS, world.observed.step_ms - exposed)
    return replace(world.observed, no_communication_step_ms=step)


def _overlap_off(world: _World) -> StepArithmetic:
    hidden = world.transfer_ms * world.share
    return replace(world.observed, overlap_off_step_ms=world.observed.step_ms + hidden)


def _synthetic(world: _World) -> StepArithmetic:
    """What is left of the step, as if nothing else took time."""
    observed = world.observed
    rest = observed.step_ms - observed.compute_ms - world.transfer_ms * (1 - world.share)
    load = min(observed.load_ms, max(0.0, rest))
    return replace(observed, load_ms=load, load_is_prefetched=False)


def _more(world: _World) -> StepArithmetic:
    observed = world.observed
    return replace(
        observed,
        load_sd_ms=observed.load_sd_ms / 2,
        compute_sd_ms=observed.compute_sd_ms / 2,
        communication_sd_ms=observed.communication_sd_ms / 2,
        step_sd_ms=observed.step_sd_ms / 2,
        intervention_sd_ms=observed.of_runs_sd_ms / 2,
    )


def _is_noisy(observed: StepArithmetic) -> bool:
    return any((observed.load_sd_ms, observed.compute_sd_ms, observed.communication_sd_ms)) or any(
        (observed.step_sd_ms, observed.of_runs_sd_ms)
    )


_Open = Callable[[StepArithmetic], bool]
_Outcome = Callable[[_World], StepArithmetic]
# In the order in which equals are named: the first two suffice together.
_TRIED: Final[dict[Name, tuple[_Open, _Outcome]]] = {
    "isolated_collective": (lambda known: known.isolated_communication_ms is None, _isolated),
    "no_sync_run": (lambda known: known.no_communication_step_ms is None, _no_sync),
    "overlap_off": (lambda known: known.overlap_off_step_ms is None, _overlap_off),
    "synthetic_data": (lambda known: not known.load_is_serial, _synthetic),
    "more_steps": (_is_noisy, _more),
}
