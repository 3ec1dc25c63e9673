"""What waiting less often brings against the same job that waits in every step."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import decode_scenario
from service.model.synchronization_gain import every_step

SLOWEST_OF_8 = 1.071180015302264
BASE: dict[str, Any] = {
    "num_gpus": 8,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "variability": {"transient": {"kind": "normal", "cv": 0.05}},
}
EVERY_STEP_MS = 110 + 300 * SLOWEST_OF_8


def gain(**changed: Any) -> float:
    columns = columns_of(decode_scenario({**BASE, **changed}))
    found = evaluate(columns, with_spread=False).columns["break_even_extra_steps_fraction"][0]
    return float(found)


@pytest.mark.parametrize(
    "synchronization", [{"kind": "every_step"}, {"kind": "backup_workers", "count": 1}]
)
def test_who_waits_in_every_step_gains_nothing_over_itself(synchronization: dict[str, Any]) -> None:
    assert np.isnan(gain(synchronization=synchronization))


def test_an_exchange_every_step_is_every_step() -> None:
    assert gain(synchronization={"kind": "local_steps", "steps": 1}) == 0
    assert gain(synchronization={"kind": "bounded_staleness", "staleness": 0}) == 0


def test_updates_that_are_only_seen_later_cost() -> None:
    delayed = {"kind": "bounded_staleness", "staleness": 0, "delay_ms": 40}
    wanted = EVERY_STEP_MS / (EVERY_STEP_MS + 40) - 1
    assert gain(synchronization=delayed) == pytest.approx(wanted, rel=1e-9)


def test_the_gain_is_that_of_the_mean_of_the_steps_and_of_fewer_exchanges() -> None:
    local = {"kind": "local_steps", "steps": 4}
    step = 30 + 20 + 300 * (1 + (SLOWEST_OF_8 - 1) / 2)
    assert gain(synchronization=local) == pytest.approx(EVERY_STEP_MS / step - 1, rel=1e-9)
    # Extra steps of one's own are what it may be eaten up by: they do not move it.
    penalized = {**local, "extra_steps_fraction": 0.5}
    assert gain(synchronization=penalized) == gain(synchronization=local)


def test_at_the_break_even_nothing_is_won() -> None:
    local = {"kind": "local_steps", "steps": 4}
    extra = gain(synchronization=local)
    eaten = {**BASE, "synchronization": {**local, "extra_steps_fraction": extra}}
    lost = [
        float(evaluate(columns_of(decode_scenario(one))).columns["gpu_hours_lost"][0])
        for one in (BASE, eaten)
    ]
    assert lost[1] == pytest.approx(lost[0], rel=1e-9)


def test_the_same_points_with_everybody_waiting() -> None:
    stale = {"kind": "bounded_staleness", "staleness": 3, "delay_ms": 1}
    columns = every_step(columns_of(decode_scenario({**BASE, "synchronization": stale})))
    plain = columns_of(decode_scenario(BASE))
    for path, values in plain.values.items():
        np.testing.assert_equal(columns.values[path], values, err_msg=path)
