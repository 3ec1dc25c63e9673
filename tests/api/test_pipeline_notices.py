"""What an evaluation says about a pipeline beside its numbers, and about each of its stages."""

from typing import Any

import pytest
from litestar import Litestar
from litestar.testing import TestClient

Client = TestClient[Litestar]
BUSY: dict[str, Any] = {
    "schedule": "1f1b",
    "stages": 4,
    "microbatches": 16,
    "forward_ms": 10,
    "backward_ms": 20,
}
NORMAL = {"kind": "normal", "cv": 0.05}


@pytest.fixture(scope="module")
def client(shared_client: Client) -> Client:
    return shared_client


def answered(client: Client, pipeline: dict[str, Any], /, **fields: Any) -> dict[str, Any]:
    scenario = {"num_gpus": 8, "pipeline": {**BUSY, **pipeline}, "draws": 64, **fields}
    answer = client.post("/v1/evaluations", json={"scenario": scenario, "ranks_limit": 0})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def notices(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {each["code"]: (each["pointer"], each["detail"]) for each in found["warnings"]}


def test_nothing_is_said_where_nothing_is_to_be_said(client: Client) -> None:
    assert notices(answered(client, {})) == {}
    assert notices(answered(client, {"schedule": "gpipe", "p2p_ms": 1})) == {}


def test_naive_keeps_one_stage_busy(client: Client) -> None:
    said = notices(answered(client, {"schedule": "naive", "microbatches": 1}))
    assert said.keys() == {"one_stage_works", "mostly_bubble"}
    assert said["one_stage_works"] == (
        "/scenario/pipeline/schedule",
        "the naive schedule keeps one of 4 stages busy at a time",
    )
    assert "bubble: 75.00 %" in said["mostly_bubble"][1]


def test_too_few_microbatches_never_fill_the_stages(client: Client) -> None:
    said = notices(answered(client, {"microbatches": 3}))
    assert said.keys() == {"fewer_microbatches_than_stages"}
    pointer, detail = said["fewer_microbatches_than_stages"]
    assert pointer == "/scenario/pipeline/microbatches"
    assert detail.startswith("3 micro-batches never fill 4 stages")


def test_interleaving_an_odd_number_is_pytorchs_order(client: Client) -> None:
    interleaved = {"schedule": "interleaved_1f1b", "chunks_per_stage": 2}
    assert notices(answered(client, interleaved)) == {}
    said = notices(answered(client, {**interleaved, "microbatches": 6, "stages": 4}))
    assert said.keys() == {"microbatches_not_a_multiple"}
    assert "6 micro-batches are no multiple of 4" in said["microbatches_not_a_multiple"][1]


@pytest.mark.parametrize(("chunks", "p2p"), [(1, 10.5), (2, 5.5)])
def test_hand_over_longer_than_a_chunk_dominates(client: Client, chunks: int, p2p: float) -> None:
    schedule = "interleaved_1f1b" if chunks > 1 else "1f1b"
    pipeline = {"schedule": schedule, "chunks_per_stage": chunks}
    pointer, detail = notices(answered(client, {**pipeline, "p2p_ms": p2p}))["hand_over_dominates"]
    assert pointer == "/scenario/pipeline/p2p_ms"
    assert f"takes {p2p:.2f} ms, more than the {10 / chunks:.2f} ms" in detail
    equal = answered(client, {**pipeline, "p2p_ms": 10 / chunks})
    assert "hand_over_dominates" not in notices(equal)


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "naive"])
@pytest.mark.parametrize("microbatches", [4, 16])
def test_slow_hand_over_asks_for_no_more_microbatches(
    client: Client, schedule: str, microbatches: int
) -> None:
    number = 1 if schedule == "naive" else microbatches
    pipeline = {"schedule": schedule, "microbatches": number, "stages": 8, "p2p_ms": 1000}
    found = answered(client, pipeline)
    said = notices(found)
    assert found["result"]["method"] == "closed_form"
    assert said["mostly_bubble"][1].endswith(
        "most of it is waiting for what is handed on: a faster hand-over or fewer stages make it "
        "less"
    )
    # The formula of these schedules holds however long handing on takes.
    assert said["hand_over_dominates"][1].endswith("it decides how long the pipeline takes")


def test_operations_are_worked_through_where_no_formula_holds(client: Client) -> None:
    interleaved = {"schedule": "interleaved_1f1b", "chunks_per_stage": 2, "p2p_ms": 11}
    found = answered(client, interleaved)
    assert found["result"]["method"] == "recursion"
    detail = notices(found)["hand_over_dominates"][1]
    assert detail.endswith(
        "published formulas do not hold; the makespan is worked out operation by operation"
    )


@pytest.mark.parametrize(
    ("pipeline", "advice"),
    [
        ({"schedule": "naive", "microbatches": 1}, "another schedule or fewer stages"),
        ({"microbatches": 2}, "more micro-batches or fewer stages"),
        (
            {"schedule": "looped_bfs", "chunks_per_stage": 2, "microbatches": 1},
            "more micro-batches, fewer stages or more chunks a stage",
        ),
        (
            {"forward_ms": [1, 1, 1, 40], "backward_ms": [2, 2, 2, 80]},
            "waiting for the stages with the most work: stages of equal work",
        ),
    ],
)
def test_a_bubble_is_made_less_by_what_the_schedule_takes(
    client: Client, pipeline: dict[str, Any], advice: str
) -> None:
    detail = notices(answered(client, pipeline))["mostly_bubble"][1]
    assert detail.endswith(f"{advice} make it less")


def test_one_micro_batch_is_one(client: Client) -> None:
    detail = notices(answered(client, {"microbatches": 1}))["fewer_microbatches_than_stages"][1]
    assert detail.startswith("1 micro-batch never fills 4 stages")


def test_zero_bubble_still_fills(client: Client) -> None:
    found = answered(client, {"schedule": "zb_h2"})
    pointer, detail = notices(found)["zero_bubble_still_fills"]
    assert pointer == "/scenario/pipeline/schedule"
    share = found["result"]["bubble_fraction"]
    assert 0 < share < 0.2
    assert f"zb_h2 still fills and drains: {100 * share:.2f} % of the pass" in detail
    assert notices(answered(client, {"schedule": "zb_h2", "stages": 1, "microbatches": 4})) == {}


def test_sampled_pipelines_tell_their_error_and_exact_ones_do_not(client: Client) -> None:
    found = answered(client, {"per_op_jitter": NORMAL})
    assert found["result"]["method"] == "monte_carlo"
    pointer, detail = notices(found)["simulated"]
    assert pointer == "/scenario/draws"
    assert "standard error" in detail
    slow = [{"count": 1, "speed_fraction": 0.7, "placement": 2}]
    exact = answered(client, {}, slow_groups=slow)
    assert (exact["result"]["method"], exact["result"]["gpu_hours_lost_se"]) == ("recursion", 0)
    assert "simulated" not in notices(exact)


def test_a_spread_that_is_not_known_is_said(client: Client) -> None:
    correlated = {"transient": NORMAL, "autocorrelation": 0.5}
    found = answered(client, {}, variability=correlated)
    assert found["result"]["gpu_hours_lost_p50"] is None
    assert "of pipelines it is not known with" in notices(found)["spread_not_computed"][1]
    episodes = {"rate_per_gpu_day": 0.01, "mean_hours": 2, "severity": 1.5}
    known = {**correlated, "persistent": NORMAL, "episodes": episodes}
    assert "spread_not_computed" not in notices(answered(client, {}, variability=known))


def test_each_stage_is_told(client: Client) -> None:
    pipeline = {"stages": 2, "microbatches": 3, "schedule": "gpipe"}
    times = {"forward_ms": [1, 2], "backward_ms": [2, 5]}
    found = answered(client, {**pipeline, **times})
    assert found["pipeline_stages"] == [
        {
            "stage": 0,
            "forward_ms": 1,
            "backward_ms": 2,
            "busy_ms": 9,
            "idle_ms": 15,
            "peak_microbatches_in_flight": 3,
        },
        {
            "stage": 1,
            "forward_ms": 2,
            "backward_ms": 5,
            "busy_ms": 21,
            "idle_ms": 3,
            "peak_microbatches_in_flight": 3,
        },
    ]
    plain = {"scenario": {"num_gpus": 8, "compute_ms": 1}}
    assert client.post("/v1/evaluations", json=plain).json()["pipeline_stages"] is None


def test_jitter_is_a_source_of_its_own(client: Client) -> None:
    scenario = {"num_gpus": 8, "pipeline": {**BUSY, "per_op_jitter": NORMAL}, "draws": 16}
    body = {"scenario": scenario, "ranks_limit": 0, "independent_ranks": True}
    (row,) = client.post("/v1/evaluations", json=body).json()["independent_ranks"]
    assert (row["source"], row["independent_ranks"]) == ("per_op_jitter", 8 * 2 * 16)
    assert (row["shared_by"], row["removed_by"]) == (
        "one operation of one GPU",
        "steadier operations",
    )
