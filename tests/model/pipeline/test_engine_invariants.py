from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.model.pipeline import SCHEDULES
from service.model.pipeline.engine import busy_ms, makespans
from tests.model.pipeline.pipeline_cases import Cases, random_cases
from tests.model.pipeline.pipeline_sizes import NAMES, SPLIT, valid_sizes

SIZES = {name: list(valid_sizes(name, 5, 12, 3)) for name in NAMES}
ROUND_OFF = 1 + 1e-12


@st.composite
def single_cases(draw: st.DrawFn) -> Cases:
    """One lane of any schedule and size."""
    name = draw(st.sampled_from(NAMES))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return random_cases(rng, name, draw(st.sampled_from(SIZES[name])), 1)


def _makespan(cases: Cases, **changed: Any) -> float:
    given_cases = cases._replace(**changed)
    keywords = {name: getattr(given_cases, name) for name in Cases._fields[3:]}
    return float(makespans(*given_cases[:3], **keywords)[0])


@given(single_cases())
@settings(max_examples=80)
def test_makespan_is_at_least_the_busiest_stage_and_the_way_of_a_microbatch(cases: Cases) -> None:
    plan = cases.plan
    ones = np.ones_like(cases.jitter)
    makespan = _makespan(cases, jitter=ones)
    busy = busy_ms(*cases[:3], weight_fraction=cases.weight_fraction, factor=cases.factor)
    assert makespan * ROUND_OFF >= busy.max()
    needed = (1 - cases.weight_fraction) if plan.schedule in SPLIT else 1
    one_way = (cases.forward + cases.backward * needed) * cases.factor
    if plan.schedule == "dualpipe":
        mirrored = (cases.forward + cases.backward * needed)[::-1] * cases.factor
        one_way = np.minimum(one_way, mirrored)
    hops = SCHEDULES[plan.schedule].num_parts(plan.stages, plan.chunks) - 1
    if SCHEDULES[plan.schedule].layout == "v" or plan.stages == 1:
        hops -= plan.chunks - 1
    assert makespan * ROUND_OFF >= one_way.sum() + 2 * hops * cases.p2p[0]


@given(single_cases(), st.floats(0, 3), st.data())
@settings(max_examples=80)
def test_a_longer_operation_never_makes_a_pass_shorter(
    cases: Cases, longer: float, data: st.DataObject
) -> None:
    jitter = cases.jitter.copy()
    jitter[data.draw(st.integers(0, len(jitter) - 1))] *= 1 + longer
    assert _makespan(cases, jitter=jitter) * ROUND_OFF >= _makespan(cases)


@given(single_cases(), st.floats(0, 3), st.data())
@settings(max_examples=80)
def test_slowing_a_stage_or_messages_never_helps(
    cases: Cases, slower: float, data: st.DataObject
) -> None:
    factor = cases.factor.copy()
    factor[data.draw(st.integers(0, len(factor) - 1))] *= 1 + slower
    assert _makespan(cases, factor=factor) * ROUND_OFF >= _makespan(cases)
    assert _makespan(cases, p2p=cases.p2p + slower) * ROUND_OFF >= _makespan(cases)


@given(single_cases(), st.floats(0.1, 10))
@settings(max_examples=60)
def test_all_times_twice_as_long_take_twice_as_long(cases: Cases, scale: float) -> None:
    scaled = _makespan(cases, factor=cases.factor * scale, p2p=cases.p2p * scale)
    assert scaled == pytest.approx(scale * _makespan(cases), rel=1e-12)


@given(st.integers(2, 8), st.integers(1, 20), st.floats(1, 3), st.integers(0, 2**32))
@settings(max_examples=60)
def test_gpipe_does_not_care_where_the_slow_stage_is(
    stages: int, microbatches: int, slow: float, seed: int
) -> None:
    cases = random_cases(np.random.default_rng(seed), "gpipe", (stages, microbatches, 1), stages)
    factor = np.ones((stages, stages)) + (slow - 1) * np.eye(stages)
    found = makespans(
        cases.plan,
        np.full((stages, 1), cases.forward[0, 0]),
        np.full((stages, 1), cases.backward[0, 0]),
        weight_fraction=np.array([0.5]),
        p2p=np.zeros(1),
        factor=factor,
    )
    assert found == pytest.approx(found[0], rel=1e-12)
