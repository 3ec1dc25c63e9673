"""Random scenarios with pipelines, against steps drawn by hand operation by operation.

    python -m tests.soak.whole_pipelines [scenarios of each way] [seed]

prints each scenario's z of the mean step, and what is wrong with them all: mean and deviation of z
should be 0 and 1. Some 1 s a scenario.
"""

import sys
from typing import Any, NamedTuple

import numpy as np

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.results import METHODS
from service.model.scenario import decode_scenario
from tests.model.pipes_by_hand import (
    Document,
    Floats,
    Pipes,
    compute_ms,
    exchange_ms,
    simulated,
    sizes_of,
)
from tests.model.random_pipes import WAYS, sound_scenario

FAST, LONG = 400, 6000
"""Draws by hand; of every state of the episodes a part of them."""
STATES_SHARE = 1 / 4
EQUAL, RARE = 1e-9, 1e-6
STEP_QUANTILES = {"step_p50_ms": 0.5, "step_p95_ms": 0.95, "step_p99_ms": 0.99}
PASS_QUANTILES = {"pipeline_makespan_ms_p50": 0.5, "pipeline_makespan_ms_p95": 0.95}


class Compared(NamedTuple):
    """Of one scenario: z of the mean step, the mean pass, quantiles, the bubble and the spread.

    lost         difference of gpu_hours_lost / available from that of the service's own step
    difference   relative, of the mean step
    """

    step: float
    makespan: float
    quantiles: list[float]
    bubble: float
    spread: list[float]
    lost: float
    difference: float


def results(document: Document) -> dict[str, float]:
    """All columns of the one point."""
    found = evaluate(columns_of(decode_scenario(document)))
    if found.failure[0]:
        raise AssertionError(document)
    return {name: float(values[0]) for name, values in found.columns.items()}


def compared(document: Document, draws: int, rng: np.random.Generator) -> Compared:
    """The service against simulation by hand."""
    found = results(document)
    has_states = "episodes" in document["variability"]
    by_hand = simulated(document, int(draws * STATES_SHARE) if has_states else draws, rng)
    error = np.hypot(by_hand.error, step_error(found))
    difference = found["step_mean_ms"] - by_hand.mean
    of_pass = np.hypot(by_hand.makespan_error, found["pipeline_makespan_ms_se"])
    own = (1 - by_hand.bubble) * found["pipeline_makespan_ms_se"] / by_hand.makespan
    # Of the service's draws, by what as many by hand scatter.
    of_draws = by_hand.bubble_error * np.sqrt(draws / _draws(document, found, "method"))
    of_bubble = np.hypot(np.hypot(by_hand.bubble_error, of_draws), own)
    return Compared(
        step=_z(difference, max(error, _unseen(found, by_hand)), by_hand.mean),
        makespan=_z(found["pipeline_makespan_ms"] - by_hand.makespan, of_pass, by_hand.makespan),
        quantiles=_quantile_zs(document, found, by_hand),
        bubble=_z(found["bubble_fraction"] - by_hand.bubble, of_bubble, 1.0),
        spread=_spread_zs(document, found, by_hand),
        lost=abs(found["gpu_hours_lost"] / found["gpu_hours_available"] - lost(document, found)),
        difference=float(difference / by_hand.mean),
    )


def _unseen(found: dict[str, float], by_hand: Pipes) -> float:
    """Of the mean step, ms: what is so rare that no draw has it, such as a pass beyond the load."""
    is_rare = by_hand.error < EQUAL * by_hand.mean and found["gpu_hours_lost_sd"] > 0
    return RARE * by_hand.mean if is_rare else 0.0


def step_error(found: dict[str, float]) -> float:
    """Of the mean step, ms."""
    share = found["gpu_hours_lost_se"] / found["gpu_hours_available"]
    return share / found["efficiency_fraction"] * found["step_mean_ms"]


def lost(document: Document, found: dict[str, float]) -> float:
    """Share of what is available, of a mean step: ideal work of the replicas that count."""
    sizes, waiting = sizes_of(document), document["synchronization"]
    backup = waiting["count"] if waiting["kind"] == "backup_workers" else 0
    counted = (sizes.replicas - backup) * sizes.stages * sizes.tensor
    held = sizes.replicas * sizes.stages * sizes.tensor + document.get("num_spare_gpus", 0)
    ideal = document["load_ms"] + compute_ms(document) + exchange_ms(document)
    extra = 1 + waiting.get("extra_steps_fraction", 0.0)
    return float(1 - ideal * counted / held / found["step_mean_ms"] / extra)


def _spread_zs(document: Document, found: dict[str, float], by_hand: Pipes) -> list[float]:
    """Of the window's loss over clusters, where only what lasts or only steps differ."""
    is_rare = _unseen(found, by_hand) > 0
    if np.isnan(found["gpu_hours_lost_sd"]) or not len(by_hand.steps) or is_rare:
        return []
    sources, spread = set(document["variability"]), found["gpu_hours_lost_sd"]
    # What a step that is longer by 1 ms adds to the loss.
    available, step = found["gpu_hours_available"], found["step_mean_ms"]
    slope = available * found["efficiency_fraction"] / step
    number = 1 / (1 / len(by_hand.steps) + 1 / _draws(document, found, "spread_method"))
    has_jitter = "per_op_jitter" in document["pipeline"]
    varies = bool(sources & {"transient", "replica", "common", "spikes"}) or has_jitter
    placed = any(group["placement"] == "random" for group in document["slow_groups"])
    if varies and (placed or sources & {"persistent", "node", "autocorrelation"}):
        return []
    if not varies:
        # All steps of a cluster are alike.
        return [
            _quantile_z(
                by_hand.steps,
                found["efficiency_fraction"] * step / found[f"efficiency_fraction_p{100 - p}"],
                p / 100,
                number,
            )
            for p in (10, 50, 90)
        ]
    rounds = available / found["gpu_hours_available_per_day"] * 86.4e6 / step
    waiting = document["synchronization"]
    if waiting["kind"] == "local_steps":
        rounds /= waiting["steps"]
    square = (by_hand.steps - by_hand.steps.mean()) ** 2
    sd = np.sqrt(square.mean())
    error = square.std() / (2 * max(sd, 1e-300)) / np.sqrt(number)
    return [_z(spread / slope * np.sqrt(rounds) - sd, error, step)]


def _z(difference: float, error: float, size: float) -> float:
    return float(difference / max(error, EQUAL * size))


def _quantile_zs(document: Document, found: dict[str, float], by_hand: Pipes) -> list[float]:
    """Passes of one cluster may go with each other: they count as one."""
    sizes, waiting = sizes_of(document), document["synchronization"]
    alike = sizes.replicas * (waiting["steps"] if waiting["kind"] == "local_steps" else 1)
    draws = _draws(document, found, "method")
    number = 1 / (alike / max(len(by_hand.makespans), 1) + 1 / draws)
    of_steps = 1 / (1 / max(len(by_hand.steps), 1) + 1 / draws)
    return [
        _quantile_z(samples, found[name], probability, effective)
        for names, samples, effective in (
            (STEP_QUANTILES, by_hand.steps, of_steps),
            (PASS_QUANTILES, by_hand.makespans, number),
        )
        for name, probability in names.items()
        if len(samples) and np.isfinite(found[name])
    ]


def _draws(document: Document, found: dict[str, float], method: str) -> float:
    """By which the service has found something."""
    sampled = METHODS[int(found[method])] == "monte_carlo"
    return float(document["draws"]) if sampled else np.inf


def _quantile_z(samples: Floats, quantile: float, probability: float, number: float) -> float:
    """0 where the quantile sits on an atom that the probability falls into."""
    below, up_to = ((samples < quantile * (1 + side * EQUAL)).mean() for side in (-1, 1))
    error = np.sqrt(probability * (1 - probability) / number)
    if below <= probability <= up_to:
        return 0.0
    return float(min((below - probability) / error, (up_to - probability) / error, key=abs))


def main() -> None:
    """All ways, so many scenarios each."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rng = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    all_of: dict[str, list[Compared]] = {way: [] for way in WAYS}
    for _ in range(number):
        for way in WAYS:
            document = sound_scenario(rng, way)
            one = compared(document, LONG, rng)
            all_of[way].append(one)
            _tell(way, document, one)
    for way, of_way in all_of.items():
        table: Any = [(one.step, one.makespan, one.bubble) for one in of_way]
        mean, sd = np.mean(table, axis=0), np.std(table, axis=0)
        worst = max((abs(z) for one in of_way for z in one.quantiles), default=0.0)
        print(f"{way:12s} z of step, pass, bubble: mean {mean.round(2)} sd {sd.round(2)}", end=" ")
        print(f"worst quantile {worst:.1f}")


def _tell(way: str, document: Document, one: Compared) -> None:
    worst = max([0.0, *one.quantiles], key=abs)
    print(f"{way:12s} {one.difference:9.1e} z {one.step:6.2f} pass {one.makespan:6.2f}", end=" ")
    print(f"bubble {one.bubble:6.2f} lost {one.lost:8.1e} quantiles {worst:6.2f}", end=" ")
    print(f"spread {max([0.0, *one.spread], key=abs):6.2f}", flush=True)
    largest = max(map(abs, [one.step, one.makespan, one.bubble, worst, *one.spread]))
    if largest > 4 or one.lost > EQUAL:
        print("   ", document, one.quantiles, flush=True)


if __name__ == "__main__":
    main()
