"""Random scenarios with pipelines and everything that may stand beside them, as documents."""

from typing import Any

import numpy as np

from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario
from tests.model.random_waits import communication, variability

Rng = np.random.Generator

SCHEDULES = (
    ("naive", 1),
    ("gpipe", 1),
    ("1f1b", 1),
    ("interleaved_1f1b", 2),
    ("interleaved_1f1b", 3),
    ("looped_bfs", 2),
    ("zb1p", 1),
    ("zb_h1", 1),
    ("zb_h2", 1),
    ("zbv", 2),
    ("interleaved_zb1p", 2),
    ("dualpipe", 1),
    ("dualpipev", 2),
)
WAYS = ("as_ranks", "slow_only", "rounds", "sampled", "episodes", "standing_by")
"""Which mathematics are meant: what varies, and who waits for whom."""

MOST_STAGES, MOST_MICROBATCHES, MOST_REPLICAS, MOST_TENSOR = 6, 12, 8, 3
MOST_GPUS_OF_STATES = 6


def sound_scenario(rng: Rng, way: str) -> dict[str, Any]:
    """One that breaks no rule."""
    while True:
        document = random_scenario(rng, way)
        try:
            decode_scenario(document)
        except InvalidScenario:
            continue
        return document


def random_scenario(rng: Rng, way: str) -> dict[str, Any]:
    """A document that may break a rule."""
    tensor = int(rng.choice([1, 1, 2, MOST_TENSOR]))
    pipeline = random_pipeline(rng)
    replicas = int(rng.integers(1, MOST_REPLICAS + 1))
    if way == "episodes":
        # All states are gone through.
        pipeline |= {"stages": min(pipeline["stages"], 3)}
        tensor = min(tensor, MOST_GPUS_OF_STATES // pipeline["stages"])
        replicas = min(replicas, MOST_GPUS_OF_STATES // pipeline["stages"] // tensor)
    used = replicas * pipeline["stages"] * tensor
    document: dict[str, Any] = {
        "num_gpus": used,
        "tensor_parallel_size": tensor,
        "gpus_per_node": tensor * int(rng.choice([1, 2, 4])),
        "load_ms": float(rng.choice([0, 5, 90, 400])),
        "compute_ms": 100.0,
        "backward_fraction": float(rng.uniform(0.4, 0.8)),
        "communication": communication(rng),
        "overlap": {"kind": "none", "load_prefetch": bool(rng.random() < 0.3)},
        "pipeline": pipeline,
        "variability": sources(rng, way),
        "synchronization": synchronization(rng, way, replicas),
        "slow_groups": [],
        "draws": 2000,
        "seed": int(rng.integers(2**31)),
    }
    _add_times(rng, document)
    if way == "slow_only" or (way not in {"as_ranks", "rounds"} and rng.random() < 0.4):
        number = int(rng.integers(1, 3))
        document["slow_groups"] = [slow_group(rng, used, pipeline["stages"]) for _ in range(number)]
    if way == "standing_by":
        if rng.random() < 0.5:
            document["num_spare_gpus"] = int(rng.integers(1, 5))
        else:
            document["num_evicted_gpus"] = int(rng.integers(1, 5))
            document["num_gpus"] += document["num_evicted_gpus"]
    if way == "sampled" and rng.random() < 0.5:
        law = {"kind": str(rng.choice(["lognormal", "gamma"])), "cv": float(rng.uniform(0.01, 0.3))}
        pipeline["per_op_jitter"] = law
    if "forward_ms" not in pipeline and rng.random() < 0.15:
        document["scaling"] = {"kind": "strong", "reference_num_gpus": used * 2}
    return document


def random_pipeline(rng: Rng) -> dict[str, Any]:
    """Of any schedule."""
    name, chunks = SCHEDULES[int(rng.integers(len(SCHEDULES)))]
    return {
        "schedule": name,
        "stages": int(rng.integers(1, MOST_STAGES + 1)),
        "microbatches": 1 if name == "naive" else int(rng.integers(1, MOST_MICROBATCHES + 1)),
        "chunks_per_stage": chunks,
        "backward_weight_fraction": float(rng.uniform(0.1, 0.9)),
        "p2p_ms": float(rng.choice([0, 10 ** rng.uniform(-1, 1.3)])),
    }


def _add_times(rng: Rng, document: dict[str, Any]) -> None:
    """Equal stages, weights of stages, or times of each."""
    pipeline = document["pipeline"]
    drawn = rng.random()
    if drawn < 0.4:
        pipeline["stage_weights"] = rng.uniform(0.5, 2, pipeline["stages"]).tolist()
    elif drawn < 0.7:
        pipeline["forward_ms"] = rng.uniform(2, 9, pipeline["stages"]).tolist()
        pipeline["backward_ms"] = rng.uniform(2, 19, pipeline["stages"]).tolist()
        document["compute_ms"] = None


def slow_group(rng: Rng, num_gpus: int, stages: int) -> dict[str, Any]:
    """A few GPUs, wherever."""
    placement = rng.choice(["random", "worst", "stage"])
    return {
        "count": int(rng.integers(1, min(num_gpus, 4) + 1)),
        "speed_fraction": float(rng.uniform(0.5, 0.98)),
        "placement": int(rng.integers(stages)) if placement == "stage" else str(placement),
    }


def sources(rng: Rng, way: str) -> dict[str, Any]:
    """What varies."""
    found = variability(rng, has_episodes=way == "episodes")
    if way == "as_ranks":
        found["replica" if rng.random() < 0.7 else "common"] = {
            "kind": str(rng.choice(["normal", "lognormal", "gamma"])),
            "cv": float(10 ** rng.uniform(-2, -0.8)),
        }
    if way == "slow_only":
        return {name: found[name] for name in ("spikes",) if name in found}
    if way in {"as_ranks", "rounds"} and (way == "as_ranks" or rng.random() < 0.5):
        return {name: found[name] for name in ("replica", "common") if name in found}
    correlated = found.get("transient", {}).get("kind") == "gamma"
    if "autocorrelation" in found and (way != "rounds" or correlated):
        del found["autocorrelation"]
    return found


def synchronization(rng: Rng, way: str, replicas: int) -> dict[str, Any]:
    """Local steps, backup replicas or neither."""
    extra = {"extra_steps_fraction": float(rng.choice([0, 0.1]))}
    if way == "rounds":
        return {"kind": "local_steps", "steps": int(rng.integers(1, 5))} | extra
    if replicas > 1 and rng.random() < 0.3:
        return {"kind": "backup_workers", "count": int(rng.integers(1, replicas // 2 + 1))}
    return {"kind": "every_step"}
