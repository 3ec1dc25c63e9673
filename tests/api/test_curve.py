"""`POST /v1/evaluations/curve`: the loss along one axis, and what an evaluation says there.

The founding page's figures: one GPU at 70 %, 30 + 300 + 80 ms, loses 367 GPU-hours a day of 64
GPUs and 5 867 of 1 024, 176 008 in 30 days; 5 % of each step leave 95.05 % of 8 GPUs and 89.38 % of
1 024.
"""

from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import CURVES
from service.jobs import curves
from service.jobs.curve_documents import CurveIn
from service.model import MODEL_VERSION

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/evaluations/curve"
NORMAL = {"kind": "normal", "cv": 0.05}
SCENARIO: dict[str, Any] = {
    "num_gpus": 100,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
SLOW = {**SCENARIO, "slow_groups": [{"count": 1, "speed_fraction": 0.7}]}
EVERY_SOURCE: dict[str, Any] = {
    **SLOW,
    "period_days": 7,
    "variability": {
        "persistent": {"kind": "normal", "cv": 0.02},
        "node": {"kind": "normal", "cv": 0.01},
        "transient": NORMAL,
        "replica": {"kind": "normal", "cv": 0.02},
        "common": {"kind": "normal", "cv": 0.01},
        "spikes": {"probability": 0.0001, "slowdown": 1.5},
        "episodes": {"rate_per_gpu_day": 0.001, "mean_hours": 2, "severity": 1.3},
    },
}
SIZES = [*(8 << doubled for doubled in range(15)), 100]


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def curve(client: Client, scenario: dict[str, Any], **body: Any) -> dict[str, Any]:
    answer = client.post(URL, json={"scenario": scenario, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def by_value(found: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    return {row["value"]: row for row in found["rows"]}


def refusal(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(URL, json={"scenario": SCENARIO, **body})
    assert answer.status_code == 422, answer.text
    fault: dict[str, Any] = answer.json()["errors"][0]
    return fault


def test_one_slow_gpu_by_cluster_size(client: Client) -> None:
    found = curve(client, SLOW)
    assert (found["path"], found["warnings"]) == ("num_gpus", [])
    assert found["model_version"] == MODEL_VERSION
    rows = by_value(found)
    assert list(rows) == sorted(SIZES)
    assert rows[64]["efficiency_fraction"] == pytest.approx(0.76127, abs=5e-6)
    assert rows[64]["gpu_hours_lost_per_day"] == pytest.approx(367, abs=0.5)
    assert rows[1024]["gpu_hours_lost_per_day"] == pytest.approx(5_867, abs=0.5)
    assert rows[1024]["gpu_hours_lost"] == pytest.approx(176_008, abs=0.5)
    # Nothing varies: every cluster and every draw of it is the expected one.
    for row in rows.values():
        assert row["gpu_hours_lost_p10"] == row["gpu_hours_lost_p90"]
        assert row["gpu_hours_lost_p10"] == pytest.approx(row["gpu_hours_lost"], rel=1e-12)
        assert row["drawn"]["step_ms"] == pytest.approx(row["step_mean_ms"], rel=1e-12)
        assert row["drawn"]["gpu_hours_lost"] == pytest.approx(row["gpu_hours_lost"], rel=1e-12)


def test_five_percent_of_each_step_by_cluster_size(client: Client) -> None:
    varied = {**SCENARIO, "variability": {"transient": NORMAL}}
    rows = by_value(curve(client, varied, leave_out=["spread"]))
    assert rows[8]["efficiency_fraction"] == pytest.approx(0.9505, abs=5e-5)
    assert rows[1024]["efficiency_fraction"] == pytest.approx(0.8938, abs=5e-5)
    assert rows[8]["gpu_hours_lost_p10"] is rows[8]["gpu_hours_lost_p90"] is None


def test_every_row_is_the_evaluation_there(client: Client) -> None:
    axis = {"path": "num_gpus", "values": [8, 4096]}
    for row in curve(client, EVERY_SOURCE, axis=axis)["rows"]:
        overrides = {"num_gpus": row["value"]}
        body = {"scenario": EVERY_SOURCE, "overrides": overrides, "ranks_limit": 1}
        alone = client.post("/v1/evaluations", json=body).json()
        for name in curves.FIGURES:
            assert row[name] == pytest.approx(alone["result"][name], rel=1e-9), name
        ranks = alone["ranks"]
        assert row["drawn"] == {
            "step_ms": ranks["step_ms"],
            "efficiency_fraction": ranks["efficiency_fraction"],
            "gpu_hours_lost_per_day": ranks["gpu_hours_lost_per_day"],
            "gpu_hours_lost": pytest.approx(7 * ranks["gpu_hours_lost_per_day"], rel=1e-12),
        }


def test_the_drawn_step_grows_with_the_cluster_as_ranks_keep_their_draws(client: Client) -> None:
    varied = {**SCENARIO, "variability": {"transient": NORMAL, "persistent": NORMAL}}
    rows = curve(client, varied, leave_out=["spread"])["rows"]
    steps = [row["drawn"]["step_ms"] for row in rows]
    assert steps == sorted(steps)
    assert steps[0] < steps[-1]


def test_drawn_steps_of_many_seeds_are_the_expected_one_on_average(client: Client) -> None:
    varied = {
        **SLOW,
        "variability": {"transient": NORMAL, "spikes": {"probability": 0.01, "slowdown": 2}},
    }
    axis = {"path": "num_gpus", "values": [8, 64]}
    expected = [row["step_mean_ms"] for row in curve(client, varied, axis=axis)["rows"]]
    drawn = []
    for seed in range(100):
        asked = curves.ask_inline(
            CurveIn(scenario=varied, overrides={"seed": seed}, axis=axis, leave_out=("spread",))
        )
        assert asked is not None
        drawn.append([row.drawn.step_ms for row in curves.answer(asked).rows if row.drawn])
    steps = np.array(drawn)
    error = steps.std(axis=0) / np.sqrt(len(steps))
    assert (np.abs(steps.mean(axis=0) - expected) < 4 * error).all()


def test_a_value_that_breaks_a_rule_fails_alone(client: Client) -> None:
    many = {**SCENARIO, "slow_groups": [{"count": 12, "speed_fraction": 0.7}]}
    rows = by_value(curve(client, many, overrides={"num_gpus": 64}))
    assert rows[8]["failure"] == {
        "code": "too_many_slow_gpus",
        "detail": "12 slow GPUs, but num_gpus is 8",
    }
    assert all(rows[8][name] is None for name in (*curves.FIGURES, "drawn"))
    assert rows[16]["failure"] is None
    assert rows[16]["gpu_hours_lost"] > 0
    assert 100 not in rows


def test_any_axis_of_a_batch(client: Client) -> None:
    axis = {
        "path": "slow_groups.0.speed_fraction",
        "range": {"start": 0.7, "stop": 1, "step": 0.15},
    }
    found = curve(client, SLOW, axis=axis, single_draw=False)
    assert found["path"] == axis["path"]
    assert [row["value"] for row in found["rows"]] == pytest.approx([0.7, 0.85, 1.0])
    steps = [row["step_mean_ms"] for row in found["rows"]]
    assert steps == pytest.approx([110 + 300 / 0.7, 110 + 300 / 0.85, 410], rel=1e-12)
    assert {row["drawn"] for row in found["rows"]} == {None}
    repeated = curve(client, SLOW, axis={"path": "num_gpus", "values": [8, 8]})
    assert [notice["pointer"] for notice in repeated["warnings"]] == ["/axis"]


def test_a_profile_is_looked_at_as_well(client: Client) -> None:
    profile = {"slug": "curved", "name": "Curved", "gpu_type": "H100", "defaults": SLOW}
    assert client.post("/v1/cluster-profiles", json=profile).status_code == 201
    answer = client.post(URL, json={"profile": "curved"})
    assert by_value(answer.json())[1024]["gpu_hours_lost"] == pytest.approx(176_008, abs=0.5)


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({"axis": {"path": "num_gpus", "values": [0]}}, "/axis/values/0", "out_of_range"),
        ({"axis": {"path": "num_gpus"}}, "/axis", "one_form"),
        ({"axis": {"values": [8]}}, "/axis/path", "missing_field"),
        ({"axis": {"zip": [{"path": "num_gpus", "values": [8]}]}}, "/axis/zip", "zip_shape"),
        ({"axis": {"path": "no_gpus", "values": [8]}}, "/axis/path", "unknown_path"),
        ({"axis": {"path": "num_gpus", "values": list(range(1, 66))}}, "/axis", "too_many_points"),
        (
            {"axis": {"path": "num_gpus", "values": list(range(1, 22))}},
            "/leave_out",
            "too_long_at_once",
        ),
        ({"overrides": {"num_gpus": 0}}, "/overrides/num_gpus", "out_of_range"),
        ({"leave_out": ["mean"]}, "/leave_out/0", "not_one_of"),
        (
            {"overrides": {"draws": 50_000, "variability.persistent": NORMAL}},
            "/overrides/draws",
            "too_many_draws",
        ),
    ],
)
def test_refusals_point_at_the_fault(
    client: Client, body: dict[str, Any], pointer: str, code: str
) -> None:
    fault = refusal(client, body)
    assert (fault["pointer"], fault["code"]) == (pointer, code)


def test_points_that_take_too_long_to_simulate_fail_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = {
        **SCENARIO,
        "draws": 16,
        "variability": {"transient": NORMAL},
        "synchronization": {"kind": "bounded_staleness", "staleness": 1, "delay_ms": 20},
    }
    axis = {"path": "num_gpus", "values": [8, 64]}
    whole = curve(client, stale, axis=axis)["rows"]
    assert [row["failure"] for row in whole] == [None, None]
    # Nobody waits for all: the step depends on those before, and is not drawn.
    assert [row["drawn"] for row in whole] == [None, None]
    # Few GPUs are simulated for more steps.
    monkeypatch.setattr(curves, "BUDGET_S", 0.12)
    long, short = curve(client, stale, axis=axis)["rows"]
    assert long["failure"]["code"] == "too_long_at_once"
    assert long["gpu_hours_lost"] is None
    assert short["gpu_hours_lost"] == whole[1]["gpu_hours_lost"]


def test_the_dearest_points_of_a_spread_that_takes_long_fail_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    axis = {"path": "num_gpus", "values": [64, 4096, 16_384]}
    # Of every source: some 0.5 s at 64 GPUs, in all parts of it, and 0.27 s at each of the others.
    monkeypatch.setattr(curves, "BUDGET_S", 0.6)
    dear, *others = curve(client, EVERY_SOURCE, axis=axis, single_draw=False)["rows"]
    assert dear["failure"]["code"] == "too_long_at_once"
    assert dear["gpu_hours_lost"] is dear["gpu_hours_lost_p90"] is None
    assert [row["failure"] for row in others] == [None, None]
    assert all(row["gpu_hours_lost_p90"] > row["gpu_hours_lost_p10"] for row in others)
    shorter = curve(client, EVERY_SOURCE, axis=axis, single_draw=False, leave_out=["spread"])
    assert [row["failure"] for row in shorter["rows"]] == [None] * 3


def test_draws_that_take_too_long_are_left_out_with_a_warning(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curves, "MOST_DRAWN_RANKS", 100)
    found = curve(client, SLOW, axis={"path": "num_gpus", "values": [8, 64, 512, 1024]})
    assert [row["drawn"] is None for row in found["rows"]] == [False, False, True, True]
    (warning,) = found["warnings"]
    assert (warning["pointer"], warning["code"]) == ("/single_draw", "ranks_not_drawn")
    assert warning["detail"].startswith("the single draw is left out at 512: at most 100 GPUs")
    assert warning["detail"].endswith("; and at 1 more")


def test_the_examples_are_answered(client: Client) -> None:
    for example in CURVES.values():
        answer = client.post(URL, json=example)
        assert answer.status_code == 200, answer.text
        assert all(row["failure"] is None for row in answer.json()["rows"])
