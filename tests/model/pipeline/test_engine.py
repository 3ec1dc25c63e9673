import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.model.pipeline.engine import busy_ms, ends, makespans
from service.model.pipeline.plans import plan_of
from tests.model.pipeline.pipeline_cases import by_events, random_cases
from tests.model.pipeline.pipeline_sizes import NAMES, valid_sizes

DATA = Path(__file__).parents[1] / "data"
WITH_SPLIT = list(
    csv.DictReader((DATA / "pipeline_schedules.csv").read_text(encoding="utf-8").splitlines())
)
UNEQUAL = [
    json.loads(line)
    for line in (DATA / "pipeline_unequal.jsonl").read_text(encoding="utf-8").splitlines()
]
SIZES_OF_A_SCHEDULE = 20
LANES = 10


def test_makespans_of_published_implementations() -> None:
    assert len(WITH_SPLIT) == 374
    for row in WITH_SPLIT:
        stages = int(row["stages"])
        plan = plan_of(
            row["schedule"], stages, int(row["microbatches"]), int(row["chunks_per_stage"])
        )
        parts = [float(row[f"{part}_ms"]) for part in ("backward_input", "backward_weight")]
        found = makespans(
            plan,
            np.full((stages, 1), float(row["forward_ms"])),
            np.full((stages, 1), sum(parts)),
            weight_fraction=np.array([parts[1] / sum(parts)]),
            p2p=np.array([float(row["p2p_ms"])]),
        )
        assert found == pytest.approx(float(row["makespan_ms"]), rel=1e-9), row


def test_makespans_and_bubbles_of_unequal_stages() -> None:
    assert len(UNEQUAL) == 120
    for row in UNEQUAL:
        given: dict[str, Any] = row["pipeline"]
        stages = given["stages"]
        plan = plan_of(given["schedule"], stages, given["microbatches"], given["chunks_per_stage"])
        stage_ms = [np.array(given[name])[:, np.newaxis] for name in ("forward_ms", "backward_ms")]
        half = np.array([0.5])
        found = makespans(plan, *stage_ms, weight_fraction=half, p2p=np.array([given["p2p_ms"]]))
        expected = row["expected"]
        assert found == pytest.approx(expected["pipeline_makespan_ms"], rel=1e-9), row["id"]
        busy = busy_ms(plan, *stage_ms, weight_fraction=half)
        bubble = 1 - busy.sum(axis=0) / (stages * found)
        assert bubble == pytest.approx(expected["bubble_fraction"], rel=1e-9), row["id"]


@pytest.mark.parametrize("name", NAMES)
def test_starts_and_ends_are_those_of_an_event_simulation(name: str) -> None:
    """200 random cases of every schedule: unequal stages, slow ranks, p2p, jitter."""
    rng = np.random.default_rng(NAMES.index(name))
    sizes = list(valid_sizes(name, 5, 11, 3))
    for _ in range(SIZES_OF_A_SCHEDULE):
        cases = random_cases(rng, name, sizes[rng.integers(len(sizes))], LANES)
        found = ends(*cases[:3], **_keywords(cases))
        makespan = makespans(*cases[:3], **_keywords(cases))
        starts, by_event = by_events(cases)
        assert found.starts == pytest.approx(starts, rel=1e-12, abs=1e-12)
        assert found.ends == pytest.approx(by_event, rel=1e-12)
        assert makespan == pytest.approx(by_event.max(axis=0), rel=1e-12)


def _keywords(cases: Any) -> dict[str, Any]:
    return {name: getattr(cases, name) for name in cases._fields[3:]}


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_does_not_depend_on_the_others(name: str) -> None:
    """More lanes than a block holds, against single ones and against all operations kept."""
    rng = np.random.default_rng(7)
    sizes = max(valid_sizes(name, 4, 9, 2))
    cases = random_cases(rng, name, sizes, 2600)
    keywords = _keywords(cases)
    found = makespans(*cases[:3], **keywords)
    assert (found == ends(*cases[:3], **keywords).ends.max(axis=0)).all()
    for lane in (0, 1300, 2599):
        one = slice(lane, lane + 1)
        alone = {name: values[..., one] for name, values in keywords.items()}
        stage_ms = cases.forward[:, one], cases.backward[:, one]
        assert makespans(cases.plan, *stage_ms, **alone) == found[lane]


def test_one_lane_of_an_argument_serves_all() -> None:
    rng = np.random.default_rng(3)
    cases = random_cases(rng, "zbv", (3, 7, 2), 5)
    one = cases._replace(
        forward=cases.forward[:, :1], p2p=cases.p2p[:1], jitter=cases.jitter[:, :1]
    )
    spread = one._replace(
        forward=one.forward.repeat(5, axis=1),
        p2p=one.p2p.repeat(5),
        jitter=one.jitter.repeat(5, axis=1),
    )
    found = [makespans(*given[:3], **_keywords(given)) for given in (one, spread)]
    assert (found[0] == found[1]).all()
    assert (ends(*one[:3], **_keywords(one)).ends.max(axis=0) == found[0]).all()


def test_without_lanes_there_are_no_makespans() -> None:
    none = np.ones((2, 0))
    plan = plan_of("gpipe", 2, 2, 1)
    assert makespans(plan, none, none, weight_fraction=none[0], p2p=none[0]).shape == (0,)


def test_jitter_and_factor_of_one_change_nothing() -> None:
    plan = plan_of("1f1b", 3, 5, 1)
    stage_ms = np.array([[1.0], [2.0], [1.5]])
    keywords: dict[str, Any] = {"weight_fraction": np.array([0.5]), "p2p": np.array([0.1])}
    plain = makespans(plan, stage_ms, 2 * stage_ms, **keywords)
    ones = {"factor": np.ones((3, 1)), "jitter": np.ones((plan.num_operations, 1))}
    assert makespans(plan, stage_ms, 2 * stage_ms, **keywords, **ones) == plain
    assert ends(plan, stage_ms, 2 * stage_ms, **keywords).ends.max() == plain


def test_busy_time_of_a_rank_is_m_times_forward_and_backward() -> None:
    rng = np.random.default_rng(5)
    for name in NAMES:
        sizes = max(valid_sizes(name, 4, 8, 3))
        cases = random_cases(rng, name, sizes, 3)
        busy = busy_ms(*cases[:3], weight_fraction=cases.weight_fraction, factor=cases.factor)
        work = cases.forward + cases.backward
        if name == "dualpipe":
            work = (work + work[::-1]) / 2
        assert busy == pytest.approx(sizes[1] * work * cases.factor, rel=1e-12)


def test_eight_stages_keep_two_or_three_gpus_busy() -> None:
    """The founding page's eight GPUs of which two or three work: three or four micro-batches."""
    for microbatches, busy in ((1, 1.0), (3, 2.4), (4, 2.91)):
        for name in ("gpipe", "1f1b"):
            plan = plan_of(name, 8, microbatches, 1)
            makespan = makespans(
                plan,
                np.ones((8, 1)),
                2 * np.ones((8, 1)),
                weight_fraction=np.array([0.5]),
                p2p=np.zeros(1),
            )
            assert 8 * microbatches * 3 / makespan == pytest.approx(busy, abs=0.005)


def test_gpipe_does_not_care_where_the_slow_stage_is_and_1f1b_does() -> None:
    factor = np.ones((4, 3))
    factor[[0, 2, 3], [0, 1, 2]] = 1.5
    found = {
        name: makespans(
            plan_of(name, 4, 8, 1),
            np.ones((4, 1)),
            2 * np.ones((4, 1)),
            weight_fraction=np.array([0.5]),
            p2p=np.zeros(1),
            factor=factor,
        ).tolist()
        for name in ("gpipe", "1f1b")
    }
    assert found == {"gpipe": [45.0, 45.0, 45.0], "1f1b": [40.5, 43.5, 45.0]}
