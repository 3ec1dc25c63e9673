"""What an evaluation answers beside the results when it is asked to."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.api.examples import EVALUATIONS, SCENARIO, VARIED

ProblemOf = Callable[[httpx.Response, str], dict[str, Any]]
Client = TestClient[Litestar]
URL = "/v1/evaluations"
EXTRAS = ("costs", "sensitivity", "model_spread", "independent_ranks")


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def evaluated(client: Client, scenario: dict[str, Any], **asked: Any) -> dict[str, Any]:
    answer = client.post(URL, json={"scenario": scenario, "ranks_limit": 0, **asked})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_what_is_not_asked_for_is_null(client: Client) -> None:
    found = evaluated(client, SCENARIO)
    assert [found[name] for name in EXTRAS] == [None] * 4


@pytest.mark.parametrize("name", EVALUATIONS)
def test_every_example_of_the_documentation_is_answered(client: Client, name: str) -> None:
    answer = client.post(URL, json=EVALUATIONS[name])
    assert answer.status_code == 200, answer.text


def test_sensitivity_is_ranked_and_each_end_can_be_repeated(client: Client) -> None:
    intervals = {"variability.transient.cv": [0.005, 0.05], "gpus_per_node": [8, 16]}
    found = evaluated(client, VARIED, sensitivity={"intervals": intervals})
    table = found["sensitivity"]
    lost = found["result"]["gpu_hours_lost"]
    assert table["gpu_hours_lost"] == pytest.approx(lost, rel=1e-9)
    changes = [row["gpu_hours_change"] for row in table["inputs"]]
    assert changes == sorted(changes, reverse=True)
    assert table["inputs"][0]["path"] == "variability.transient.cv"
    assert table["inputs"][0]["high"] is None
    for row in table["inputs"][:4]:
        for end in filter(None, (row["low"], row["high"])):
            there = evaluated(client, VARIED, overrides={row["path"]: end["value"]})["result"]
            assert end["gpu_hours_lost"] == pytest.approx(there["gpu_hours_lost"], rel=1e-9)
            assert end["reason"] is None
    unmoved = {part["path"]: part for part in table["unmoved"]}
    assert unmoved["num_spare_gpus"]["code"] == "no_other_value"
    assert unmoved["seed"]["value"] == 0


def test_an_end_that_breaks_a_rule_is_null_with_the_reason(client: Client) -> None:
    asked = {"intervals": {"variability.transient.cv": [0.01, 0.5]}}
    table = evaluated(client, VARIED, sensitivity=asked)["sensitivity"]
    (row,) = (row for row in table["inputs"] if row["path"] == "variability.transient.cv")
    assert row["high"]["gpu_hours_lost"] is None
    assert row["high"]["reason"]["code"] == "cv_too_large_for_normal"


def test_a_wider_share_moves_further(client: Client) -> None:
    narrow = evaluated(client, VARIED, sensitivity={})["sensitivity"]["inputs"]
    wide = evaluated(client, VARIED, sensitivity={"share": 0.2})["sensitivity"]["inputs"]
    ends = [
        {row["path"]: row["high"]["value"] for row in rows if row["high"]}["compute_ms"]
        for rows in (narrow, wide)
    ]
    assert ends == pytest.approx([330, 360], rel=1e-12)


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"share": 0}, "/sensitivity/share"),
        ({"intervals": {"num_gpu": [1, 2]}}, "/sensitivity/intervals/num_gpu"),
        ({"intervals": {"num_gpus": [2, 1]}}, "/sensitivity/intervals/num_gpus"),
        ({"intervals": {"num_gpus": [1]}}, "/sensitivity/intervals/num_gpus"),
        ({"intervals": {"a/b": [1, 2]}}, "/sensitivity/intervals/a~1b"),
    ],
)
def test_a_bad_interval_is_named_by_its_place(
    client: Client, problem_of: ProblemOf, asked: dict[str, Any], pointer: str
) -> None:
    answer = client.post(URL, json={"scenario": VARIED, "sensitivity": asked})
    (fault,) = problem_of(answer, "invalid-input")["errors"]
    assert fault["pointer"] == pointer


def test_draws_that_are_too_many_to_move_anything_are_refused(
    client: Client, problem_of: ProblemOf
) -> None:
    scenario = {
        **SCENARIO,
        "draws": 30_000,
        "num_gpus": 16,
        "variability": {"persistent": {"kind": "normal", "cv": 0.04}},
        "num_spare_gpus": 1,
    }
    answer = client.post(URL, json={"scenario": scenario, "sensitivity": {}, "ranks_limit": 0})
    (fault,) = problem_of(answer, "invalid-scenario")["errors"]
    assert (fault["pointer"], fault["code"]) == ("/scenario/draws", "too_many_draws")


def test_the_choice_of_the_tail_is_shown_as_a_spread(client: Client) -> None:
    """cv 14 %: the slowest of 1 024 takes 1.4548 times the mean if normal, 1.5590 if lognormal."""
    overrides = {"variability.transient.cv": 0.14}
    spread = evaluated(client, VARIED, overrides=overrides, model_spread=True)["model_spread"]
    factors = {row["family"]: (row["step_mean_ms"] - 110) / 300 for row in spread["families"]}
    assert factors["normal"] == pytest.approx(1.4548, abs=5e-5)
    assert factors["lognormal"] == pytest.approx(1.5590, abs=5e-5)
    lost = [row["gpu_hours_lost"] for row in spread["families"]]
    assert (spread["lowest"], spread["highest"]) == (min(lost), max(lost))
    assert (spread["replaced"], spread["kept"]) == (["transient"], [])
    lognormal = {"variability.transient": {"kind": "lognormal", "cv": 0.4}}
    spread = evaluated(client, VARIED, overrides=lognormal, model_spread=True)["model_spread"]
    normal = spread["families"][0]
    assert normal["gpu_hours_lost"] is None
    assert normal["reason"]["code"] == "cv_too_large_for_normal"


def test_independent_ranks_are_told_for_each_source(client: Client) -> None:
    law = {"kind": "normal", "cv": 0.02}
    scenario = {
        **SCENARIO,
        "slow_groups": [],
        "num_gpus": 1000,
        "gpus_per_node": 16,
        "tensor_parallel_size": 4,
        "variability": {
            "persistent": law,
            "node": law,
            "replica": law,
            "common": law,
            "episodes": {"rate_per_gpu_day": 0.001, "mean_hours": 2, "severity": 1.5},
        },
    }
    rows = evaluated(client, scenario, independent_ranks=True)["independent_ranks"]
    found = {row["source"]: row for row in rows}
    counts = {source: row["independent_ranks"] for source, row in found.items()}
    # The last node has 8 GPUs.
    assert counts == {
        "persistent": 1000,
        "node": 63,
        "replica": 250,
        "common": 1,
        "episodes": 1000,
    }
    assert found["persistent"]["shrinks_over_window"] == "no"
    assert found["replica"]["shrinks_over_window"] == "with_steps"
    assert found["episodes"]["shrinks_over_window"] == "with_episodes"
    assert found["replica"]["removed_by"] == "balancing the data"
    assert found["common"]["removed_by"] is None
    assert found["node"]["shared_by"] == "the GPUs of a node"


def test_strong_scaling_divides_the_work(client: Client) -> None:
    scaling = {"kind": "strong", "reference_num_gpus": 256}
    found = evaluated(client, {**SCENARIO, "slow_groups": [], "scaling": scaling})["result"]
    assert found["ideal_step_ms"] == pytest.approx(110 + 300 / 4, rel=1e-12)
