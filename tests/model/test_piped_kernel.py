"""Jobs with pipelines, end to end through the kernel, against values from elsewhere."""

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.kernel import evaluate
from service.model.results import ATTRIBUTION_COLUMNS, METHODS
from service.model.rules import FAILURES
from service.model.scenario import decode_scenario
from tests.model.grids_for_tests import grid_of

IDLE = ("", "_fill", "_imbalance", "_p2p", "_jitter")
DATA = Path(__file__).parent / "data"
UNEQUAL = [
    json.loads(line)
    for line in (DATA / "pipeline_unequal.jsonl").read_text(encoding="utf-8").splitlines()
]
with (DATA / "pipeline_schedules.csv").open(encoding="utf-8", newline="") as _file:
    PUBLISHED = list(csv.DictReader(_file))


def evaluated(document: dict[str, Any]) -> dict[str, Any]:
    """The output columns of one scenario; those whose names are labels as their positions."""
    results = evaluate(columns_of(decode_scenario(document)))
    return {name: values[0].item() for name, values in results.columns.items()}


def causes(found: dict[str, Any]) -> dict[str, float]:
    """The GPU-hours of the causes that there are."""
    return {name: found[name] for name in ATTRIBUTION_COLUMNS if found[name]}


@pytest.mark.parametrize("row", UNEQUAL, ids=lambda row: str(row["id"]))
def test_unequal_stages_take_what_a_longest_path_says(row: dict[str, Any]) -> None:
    pipeline = row["pipeline"]
    found = evaluated({"num_gpus": 3 * pipeline["stages"], "load_ms": 3, "pipeline": pipeline})
    for name, expected in row["expected"].items():
        assert found[name] == pytest.approx(expected, rel=row["rtol"], abs=1e-12)
    assert found["step_mean_ms"] == pytest.approx(3 + row["expected"]["pipeline_makespan_ms"])
    assert sum(causes(found).values()) == pytest.approx(found["gpu_hours_available"], rel=1e-9)
    assert min(causes(found).values()) > 0


def test_published_orders_take_what_their_own_code_takes() -> None:
    # The engine meets all rows (pipeline/test_engine.py); here, that nothing changes on the way.
    for row in PUBLISHED[::7]:
        inputs, weights = float(row["backward_input_ms"]), float(row["backward_weight_ms"])
        pipeline = {
            "schedule": row["schedule"],
            "stages": int(row["stages"]),
            "microbatches": int(row["microbatches"]),
            "chunks_per_stage": int(row["chunks_per_stage"]),
            "forward_ms": float(row["forward_ms"]),
            "backward_ms": inputs + weights,
            "backward_weight_fraction": weights / (inputs + weights),
            "p2p_ms": float(row["p2p_ms"]),
        }
        found = evaluated({"num_gpus": int(row["stages"]), "pipeline": pipeline})
        assert found["pipeline_makespan_ms"] == pytest.approx(float(row["makespan_ms"]), rel=1e-9)
        if row["peak_microbatches_in_flight"]:
            peak = float(row["peak_microbatches_in_flight"])
            assert found["peak_microbatches_in_flight"] == pytest.approx(peak, rel=1e-9)


@pytest.mark.parametrize(
    ("microbatches", "busy"), [(1, 1.0), (3, 2.4), (4, 32 / 11), (5, 40 / 12), (32, 256 / 39)]
)
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_of_eight_gpus_only_two_or_three_work(
    schedule: str, microbatches: int, busy: float
) -> None:
    pipeline = {"schedule": schedule, "stages": 8, "microbatches": microbatches}
    found = evaluated({"num_gpus": 8, "compute_ms": 300, "pipeline": pipeline})
    assert found["busy_gpus_mean"] == pytest.approx(busy, rel=1e-12)
    assert found["bubble_fraction"] == pytest.approx(1 - busy / 8, rel=1e-12)
    assert found["bubble_to_ideal_ratio"] == pytest.approx(7 / microbatches, rel=1e-12)
    assert found["gpu_hours_lost"] == pytest.approx(8 * 720 * (1 - busy / 8), rel=1e-12)
    assert found["gpu_hours_pipeline_bubble"] == pytest.approx(found["gpu_hours_lost"], rel=1e-12)
    assert METHODS[found["method"]] == "closed_form"


def test_handing_on_and_uneven_stages_are_told_apart_from_the_bubble() -> None:
    """1F1B by hand: P = 2, M = 2; 0.5 ms to hand on, the second stage twice the first."""
    pipeline = {
        "schedule": "1f1b",
        "stages": 2,
        "microbatches": 2,
        "forward_ms": [1, 2],
        "backward_ms": [2, 4],
        "p2p_ms": 0.5,
    }
    found = evaluated({"num_gpus": 2, "pipeline": pipeline})
    # F0 1, hand on, the second stage F B F B = 12, hand on, B 2.
    assert found["pipeline_makespan_ms"] == 16
    # Without handing on 15; equal stages of 4.5: 3 x 4.5; the work of a stage 9 on average.
    idle = {part: found[f"pipeline_idle{part}_ms"] for part in IDLE}
    assert [idle[part] for part in IDLE] == pytest.approx([7, 4.5, 1.5, 1, 0], abs=1e-12)
    hours = found["gpu_hours_available"] / 16
    assert causes(found) == pytest.approx(
        {
            "gpu_hours_useful": 9 * hours,
            "gpu_hours_pipeline_p2p": hours,
            "gpu_hours_pipeline_imbalance": 1.5 * hours,
            "gpu_hours_pipeline_bubble": 4.5 * hours,
        }
    )


def test_a_load_hides_behind_the_pass() -> None:
    document: dict[str, Any] = {
        "num_gpus": 16,
        "compute_ms": 240,
        "load_ms": 100,
        "communication": {"kind": "fixed", "allreduce_ms": 20},
        "overlap": {"kind": "none", "load_prefetch": True},
        "pipeline": {"schedule": "gpipe", "stages": 4, "microbatches": 8},
    }
    found = evaluated(document)
    # 11 / 8 x 240 = 330, and the exchange; the load takes less.
    assert found["step_mean_ms"] == pytest.approx(350)
    assert found["exposed_load_ms"] == 0
    assert found["exposed_communication_ms"] == pytest.approx(20)
    assert found["slowest_compute_mean_ms"] == pytest.approx(330)
    long = evaluated(document | {"load_ms": 400})
    assert long["step_mean_ms"] == pytest.approx(400)
    assert long["exposed_load_ms"] == pytest.approx(50)
    hours = long["gpu_hours_available"] / 400
    # Of 400 ms the load alone is longer than compute and exchange by 140: no bubble is to blame.
    assert causes(long) == pytest.approx(
        {
            "gpu_hours_useful": 240 * hours,
            "gpu_hours_communication": 20 * hours,
            "gpu_hours_load": 140 * hours,
        }
    )


@pytest.mark.parametrize("load", [100, 400])
@pytest.mark.parametrize("cv", [0.0, 0.05])
def test_a_round_of_one_step_is_a_step(load: float, cv: float) -> None:
    document: dict[str, Any] = {
        "num_gpus": 16,
        "compute_ms": 240,
        "load_ms": load,
        "communication": {"kind": "fixed", "allreduce_ms": 20},
        "overlap": {"kind": "none", "load_prefetch": True},
        "pipeline": {"schedule": "gpipe", "stages": 4, "microbatches": 8},
        "variability": {"transient": {"kind": "normal", "cv": cv}},
        "draws": 16,
    }
    plain = evaluated(document)
    found = evaluated(document | {"synchronization": {"kind": "local_steps", "steps": 1}})
    for name in set(plain) - {"break_even_extra_steps_fraction"}:
        assert found[name] == pytest.approx(plain[name], rel=1e-12, nan_ok=True), name
    assert plain["step_mean_ms"] >= max(350, load)


@pytest.mark.parametrize("cv", [0.0, 0.1])
@pytest.mark.parametrize("backup", [0, 1])
def test_replicas_are_the_ranks_of_the_barrier(cv: float, backup: int) -> None:
    """Without handing on a makespan is proportional to what the data of a replica take."""
    document: dict[str, Any] = {
        "num_gpus": 6 * 4 * 2,
        "tensor_parallel_size": 2,
        "compute_ms": 240,
        "pipeline": {"schedule": "1f1b", "stages": 4, "microbatches": 8},
        "variability": {
            "replica": {"kind": "lognormal", "cv": 0.05},
            "common": {"kind": "gamma", "cv": cv},
        },
    }
    if backup:
        document["synchronization"] = {"kind": "backup_workers", "count": backup}
    alone = {
        **document,
        "num_gpus": 6,
        "tensor_parallel_size": 1,
        "compute_ms": 330,
        "pipeline": None,
    }
    found, ranks = evaluated(document), evaluated(alone)
    for name in ("step_mean_ms", "step_p50_ms", "step_p99_ms"):
        assert found[name] == pytest.approx(ranks[name], rel=1e-9)
    # Beside lines the noise of the common factor is that of a step whose slowest rank is as slow as
    # usual (step_noise.py): Var C x m² without Var C x Var M, here 5e-4 of the deviation.
    assert found["gpu_hours_lost_sd"] == pytest.approx(
        8 * 240 / 330 * ranks["gpu_hours_lost_sd"], rel=1e-3 if cv else 1e-6
    )
    assert found["gpu_hours_replica"] == pytest.approx(8 * ranks["gpu_hours_replica"], rel=1e-8)
    assert found["gpu_hours_backup_workers"] == pytest.approx(
        8 * ranks["gpu_hours_backup_workers"], rel=1e-8
    )
    assert found["num_independent_ranks"] == 6


def test_a_replica_whose_handing_on_does_not_slow_down() -> None:
    """1F1B, equal stages: (M + P - 1)(f + b) S + 2 c floor((M + P - 1)(P - 1) / P)."""
    pipeline = {
        "schedule": "1f1b",
        "stages": 4,
        "microbatches": 8,
        "forward_ms": 1,
        "backward_ms": 2,
        "p2p_ms": 0.5,
    }
    variability = {"replica": {"kind": "normal", "cv": 0.1}}
    document = {"num_gpus": 64, "pipeline": pipeline, "variability": variability}
    plain = evaluated({"num_gpus": 16, "compute_ms": 33, "variability": variability})
    found = evaluated(document)
    assert found["step_mean_ms"] == pytest.approx(plain["step_mean_ms"] + 8, rel=1e-9)
    assert found["pipeline_makespan_ms"] == pytest.approx(41, rel=1e-9)
    assert found["pipeline_makespan_ms_p95"] == pytest.approx(41 + 33 * 0.1 * 1.644853627, rel=1e-8)
    assert METHODS[found["method"]] == "quadrature"


def test_a_round_of_replicas_waits_for_the_largest_mean() -> None:
    """Means of four normal factors are normal, of half the deviation."""
    pipeline = {"schedule": "gpipe", "stages": 4, "microbatches": 8}
    document: dict[str, Any] = {"num_gpus": 64, "compute_ms": 240, "pipeline": pipeline}
    found = evaluated(
        document
        | {
            "variability": {"replica": {"kind": "normal", "cv": 0.1}},
            "synchronization": {"kind": "local_steps", "steps": 4},
        }
    )
    halved = evaluated(document | {"variability": {"replica": {"kind": "normal", "cv": 0.05}}})
    assert found["step_mean_ms"] == pytest.approx(halved["step_mean_ms"], rel=1e-9)
    # E of the largest of 16 normal numbers [textbook].
    assert found["step_mean_ms"] == pytest.approx(330 * (1 + 0.05 * 1.7659914), rel=1e-7)
    assert METHODS[found["method"]] == "quadrature"


def test_the_mean_pass_of_a_straight_line_is_known() -> None:
    """All operations share factors of mean 1: what varies makes no idle time, to the last digit."""
    pipeline = {"schedule": "gpipe", "stages": 4, "microbatches": 8}
    variability = {
        "replica": {"kind": "lognormal", "cv": 0.12},
        "common": {"kind": "normal", "cv": 0.09},
    }
    document = {"num_gpus": 16, "compute_ms": 240, "variability": variability}
    for changes, idle in (({}, 90.0), ({"stages": 1, "p2p_ms": 0.4}, 0.0)):
        found = evaluated(document | {"pipeline": pipeline | changes})
        assert found["pipeline_makespan_ms"] == pytest.approx(240 + idle, rel=1e-14)
        assert found["pipeline_idle_jitter_ms"] == pytest.approx(0, abs=1e-12)
        assert found["pipeline_idle_ms"] == pytest.approx(idle, abs=1e-12)


def test_jitter_leaves_no_dust_in_causes_that_a_job_has_not() -> None:
    jitter = {"kind": "normal", "cv": 0.05}
    pipeline = {"schedule": "1f1b", "stages": 8, "microbatches": 16, "per_op_jitter": jitter}
    exchange = {"kind": "fixed", "allreduce_ms": 80}
    base = {"num_gpus": 64, "compute_ms": 300, "communication": exchange, "pipeline": pipeline}
    for compute in (300, 290, 310):
        found = evaluated({**base, "compute_ms": compute, "draws": 64})
        assert found["gpu_hours_transient"] > 0
        assert found["gpu_hours_slow_groups"] == 0
        assert found["pipeline_idle_p2p_ms"] == found["pipeline_idle_imbalance_ms"] == 0


def test_strong_scaling_divides_the_micro_batches() -> None:
    pipeline = {"schedule": "1f1b", "stages": 4, "microbatches": 16}
    document = {
        "num_gpus": 32,
        "compute_ms": 480,
        "pipeline": pipeline,
        "scaling": {"kind": "strong", "reference_num_gpus": 16},
    }
    found = evaluated(document)
    assert found["ideal_step_ms"] == 240
    assert found["pipeline_makespan_ms"] == pytest.approx((8 + 3) * 30)


def test_gradients_travel_among_replicas() -> None:
    link = {"latency_us": 10, "bandwidth_gigabytes_per_s": 50}
    document = {
        "num_gpus": 128,
        "tensor_parallel_size": 4,
        "compute_ms": 480,
        "pipeline": {"schedule": "1f1b", "stages": 4, "microbatches": 16},
        "communication": {
            "kind": "ring",
            "parameters": 16e9,
            "bytes_per_parameter": 2,
            "link": link,
        },
    }
    found = evaluated(document)
    assert found["num_data_parallel_ranks"] == 8
    assert found["communication_ms"] == pytest.approx(
        14 * 0.01 + 1000 * 2 * 7 / 8 * (32e9 / 16) / 50e9
    )


def test_points_alone_and_among_others_are_the_same() -> None:
    documents = [
        {
            "num_gpus": 32,
            "compute_ms": 300,
            "pipeline": {
                "schedule": schedule,
                "stages": 4,
                "microbatches": 8,
                "chunks_per_stage": chunks,
                "p2p_ms": 1,
            },
            "variability": {"replica": {"kind": "gamma", "cv": cv}},
        }
        for schedule, chunks in (("gpipe", 1), ("zbv", 2))
        for cv in (0, 0.1)
    ]
    parts = [columns_of(decode_scenario(document)) for document in documents]
    together = evaluate(joined(parts)).columns
    for row, part in enumerate(parts):
        alone = evaluate(part).columns
        for name, values in alone.items():
            np.testing.assert_allclose(
                together[name][row], values[0], rtol=1e-9, atol=1e-9, err_msg=name
            )


def test_times_of_stages_and_their_weights_say_the_same() -> None:
    weights = [3, 5, 4, 4]
    by_weight = {
        "num_gpus": 4,
        "compute_ms": 240,
        "backward_fraction": 0.6,
        "pipeline": {
            "schedule": "1f1b",
            "stages": 4,
            "microbatches": 8,
            "stage_weights": weights,
        },
    }
    by_time = {
        "num_gpus": 4,
        "pipeline": {
            "schedule": "1f1b",
            "stages": 4,
            "microbatches": 8,
            "forward_ms": [12 * weight / 4 for weight in weights],
            "backward_ms": [18 * weight / 4 for weight in weights],
        },
    }
    first, second = evaluated(by_weight), evaluated(by_time)
    for name in ("step_mean_ms", "ideal_step_ms", "gpu_hours_pipeline_imbalance"):
        assert first[name] == pytest.approx(second[name], rel=1e-12)
    assert msgspec.json.decode(msgspec.json.encode(decode_scenario(by_time)))["compute_ms"] is None


def test_a_grid_of_which_every_point_breaks_a_rule() -> None:
    pipeline = {"schedule": "1f1b", "stages": 8, "microbatches": 8}
    document = {"num_gpus": 64, "compute_ms": 300, "pipeline": pipeline}
    grid = grid_of(document, [{"path": "pipeline.stages", "values": [3, 5, 7]}])
    results = evaluate(grid.columns(0, 3))
    assert [FAILURES[code] for code in results.failure] == ["no_whole_pipelines"] * 3
    assert np.isnan(results.columns["pipeline_makespan_ms"]).all()


def test_axes_over_what_a_pipeline_is() -> None:
    pipeline = {"schedule": "1f1b", "stages": 8, "microbatches": 8}
    slow = {"count": 1, "speed_fraction": 0.5}
    document = {"num_gpus": 64, "compute_ms": 300, "pipeline": pipeline, "slow_groups": [slow]}
    axes: list[dict[str, Any]] = [
        {"path": "pipeline.schedule", "values": ["gpipe", "1f1b", "zbv"]},
        {"path": "pipeline.stages", "values": [4, 8]},
        {"path": "pipeline.chunks_per_stage", "values": [1, 2]},
        {"path": "slow_groups.0.placement", "values": ["random", 0, "worst"]},
    ]
    grid = grid_of(document, axes)
    found = evaluate(grid.columns(0, grid.num_points))
    for point in range(grid.num_points):
        scenario = grid.point_scenario(point)
        alone = evaluate(columns_of(scenario))
        assert alone.failure[0] == found.failure[point]
        one, all_of_it = alone.columns["step_mean_ms"][0], found.columns["step_mean_ms"][point]
        np.testing.assert_allclose(one, all_of_it, rtol=1e-12)
    sound = [FAILURES[code] == "" for code in found.failure]
    assert sum(sound) == 2 * 2 * 3 + 2 * 3
    whole = grid_of(document, [{"path": "pipeline", "values": [None, pipeline]}])
    none, some = evaluate(whole.columns(0, 2)).columns["step_mean_ms"].tolist()
    assert none == 600
    assert some > none
