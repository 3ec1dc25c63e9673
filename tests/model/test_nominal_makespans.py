"""Makespans at nominal speed are worked through once, however often they are asked for."""

from typing import Any

import numpy as np
import pytest

from service.model import nominal_makespans
from service.model.laws.law import Floats
from service.model.nominal_makespans import Makespans, joined
from service.model.pipeline import engine
from service.model.pipeline.plans import plan_of

RNG = np.random.default_rng(7)
TIMES = RNG.uniform(1, 2, (4, 5))


def _makespans(points: list[int], stages: int = 4, **given: Any) -> Makespans:
    fields: dict[str, Any] = {
        "schedule": "zb1p",
        "stages": stages,
        "microbatches": 6,
        "chunks": 1,
        "forward": np.resize(TIMES, (stages, 5))[:, points],
        "backward": 2 * np.resize(TIMES, (stages, 5))[:, points],
        "weight_fraction": np.full(len(points), 0.4),
        "p2p": np.linspace(0, 0.4, 5)[points],
    }
    return Makespans(**{**fields, **given})


def _directly(asked: Makespans) -> Floats:
    return engine.makespans(
        plan_of(asked.schedule, asked.stages, asked.microbatches, asked.chunks),
        asked.forward,
        asked.backward,
        weight_fraction=asked.weight_fraction,
        p2p=asked.p2p,
    )


@pytest.fixture(autouse=True)
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lanes of each call of the engine; nothing is kept from before."""
    monkeypatch.setattr(nominal_makespans, "_KEPT", {})
    found: list[int] = []

    def counted(plan: Any, forward: Floats, backward: Floats, **others: Floats) -> Floats:
        found.append(forward.shape[1])
        return engine.makespans(plan, forward, backward, **others)

    monkeypatch.setattr(nominal_makespans, "makespans", counted)
    return found


def test_each_once_and_as_the_engine_finds_them(lanes: list[int]) -> None:
    some = _makespans([0, 1, 0, 2])
    np.testing.assert_array_equal(some.nominal(), _directly(some))
    more = _makespans([2, 3, 1])
    np.testing.assert_array_equal(more.nominal(), _directly(more))
    more.nominal()
    # 0, 1 and 2; then 3; then none.
    assert lanes == [3, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"schedule": "zb_h1"},
        {"microbatches": 7},
        {"weight_fraction": np.full(1, 0.5)},
        {"p2p": np.ones(1)},
        {"forward": TIMES[:, [4]]},
        {"backward": TIMES[:, [4]]},
    ],
)
def test_whatever_differs_is_another(other: dict[str, Any], lanes: list[int]) -> None:
    _makespans([0]).nominal()
    asked = _makespans([0], **other)
    np.testing.assert_array_equal(asked.nominal(), _directly(asked))
    assert lanes == [1, 1]


def test_formulas_ask_for_no_plan(lanes: list[int]) -> None:
    equal = np.ones((4, 2))
    asked = _makespans([0, 1], schedule="1f1b", forward=equal, backward=equal)
    assert asked.nominal()[0] == pytest.approx((6 + 4 - 1) * 2)
    assert lanes == []


def test_variants_go_together(lanes: list[int]) -> None:
    asked = _makespans([1, 2])
    without = asked.without_p2p()
    parts = [asked, without, without.with_equal_stages()]
    found = joined(parts).nominal().reshape(3, 2)
    for values, part in zip(found, parts, strict=True):
        np.testing.assert_array_equal(values, _directly(part))
    assert lanes == [6]


def test_bounds_of_what_is_kept(monkeypatch: pytest.MonkeyPatch, lanes: list[int]) -> None:
    monkeypatch.setattr(nominal_makespans, "MOST_KEPT", 2)
    _makespans([0, 1, 2]).nominal()
    assert len(nominal_makespans._KEPT) == 2
    _makespans([1, 2]).nominal()
    _makespans([0]).nominal()
    assert lanes == [3, 1]
    monkeypatch.setattr(nominal_makespans, "MOST_BYTES", 100)
    large = _makespans([3], stages=8)
    np.testing.assert_array_equal(large.nominal(), large.nominal())
    assert lanes == [3, 1, 1, 1]
