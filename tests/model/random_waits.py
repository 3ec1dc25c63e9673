"""Random scenarios with every kind of communication, overlap and synchronization, as documents."""

from typing import Any

import numpy as np

Rng = np.random.Generator

LAWS = ("normal", "lognormal", "gamma")
FIELDS = ("persistent", "node", "transient", "replica", "common", "spikes", "episodes")
WAYS = ("none", "buckets", "fsdp", "rounds", "round_buckets", "fragments", "stale", "delayed")


def random_scenario(rng: Rng, way: str, *, most_gpus: int = 12) -> dict[str, Any]:
    """A document that may break a rule; small enough to be simulated step by step."""
    size = int(rng.choice([1, 1, 1, 2]))
    num_gpus = size * int(rng.integers(1, most_gpus // size + 1))
    has_episodes = rng.random() < 0.15
    if has_episodes:
        num_gpus = min(num_gpus, 3 * size)
    document: dict[str, Any] = {
        "num_gpus": num_gpus,
        "gpus_per_node": size * int(rng.choice([1, 2])),
        "tensor_parallel_size": size,
        "compute_ms": 100.0,
        "load_ms": float(rng.choice([0, 5, 30, 130])),
        "backward_fraction": float(rng.uniform(0.4, 0.8)),
        "variability": variability(rng, has_episodes=has_episodes),
        "communication": communication(rng),
        "overlap": overlap(rng, way),
        "synchronization": synchronization(rng, way),
        "draws": 256,
    }
    if rng.random() < 0.4:
        count = int(rng.integers(1, num_gpus + 1))
        document["slow_groups"] = [
            {"count": count, "speed_fraction": float(rng.uniform(0.7, 0.98))}
        ]
    if rng.random() < 0.15:
        document["scaling"] = {"kind": "strong", "reference_num_gpus": num_gpus + 1}
    if rng.random() < 0.2 and num_gpus > 2:
        standing = "num_spare_gpus" if rng.random() < 0.5 else "num_evicted_gpus"
        document[standing] = size
    if rng.random() < 0.2:
        document["failures"] = {"mtbf_hours_per_gpu": 1e4, "checkpoint_write_s": 30}
    return document


def variability(rng: Rng, *, has_episodes: bool) -> dict[str, Any]:
    """Each source with some chance."""
    found: dict[str, Any] = {}
    for name in ("persistent", "node", "transient", "replica", "common"):
        if rng.random() < (0.6 if name == "transient" else 0.25):
            cv = float(10 ** rng.uniform(-2, -0.8))
            found[name] = {"kind": str(rng.choice(LAWS)), "cv": cv}
    if rng.random() < 0.2:
        found["spikes"] = {"probability": 0.05, "slowdown": float(rng.uniform(1.1, 2.5))}
    if has_episodes:
        found["episodes"] = {"rate_per_gpu_day": 0.5, "mean_hours": 6.0, "severity": 1.4}
    if "transient" in found and rng.random() < 0.2:
        found["autocorrelation"] = float(rng.uniform(0.1, 0.8))
    return found


def communication(rng: Rng) -> dict[str, Any]:
    """Between a thousandth and three times the compute."""
    long_ms = float(10 ** rng.uniform(-1, 2.5))
    if rng.random() < 0.3:
        return {"kind": "fixed", "allreduce_ms": long_ms}
    link = {"latency_us": float(10 ** rng.uniform(0, 3.3)), "bandwidth_gigabytes_per_s": 1.0}
    given = {
        "kind": str(rng.choice(["ring", "transfer", "tree"])),
        "message_bytes": long_ms * 1e6 / 2,
        "link": link,
    }
    if rng.random() < 0.3:
        given |= {"compression_ratio": 2.0, "compression_ms": float(rng.uniform(0, 10))}
    return given


def overlap(rng: Rng, way: str) -> dict[str, Any]:
    """As the way says; loads hidden now and then."""
    prefetch = bool(rng.random() < 0.3)
    if way in {"buckets", "round_buckets"}:
        given: dict[str, Any] = {"kind": "buckets", "load_prefetch": prefetch}
        if rng.random() < 0.5:
            given["num_buckets"] = int(rng.integers(1, 12))
        else:
            given["bucket_shares"] = rng.uniform(0.1, 1, int(rng.integers(1, 7))).tolist()
        return given | {"contention_fraction": float(rng.choice([0, 0.2, 0.9]))}
    if way == "fsdp":
        layers = int(rng.integers(1, 8))
        return {
            "kind": "fsdp",
            "num_layers": layers,
            "prefetch_layers": int(rng.integers(0, 4)),
            "load_prefetch": prefetch,
        }
    return {"kind": "none", "load_prefetch": prefetch}


def synchronization(rng: Rng, way: str) -> dict[str, Any]:
    """As the way says."""
    extra = {"extra_steps_fraction": float(rng.choice([0, 0.1]))}
    if way == "stale":
        delay = float(rng.choice([0, 20, 200]))
        staleness = int(rng.integers(0, 5))
        return {"kind": "bounded_staleness", "staleness": staleness, "delay_ms": delay} | extra
    if way == "delayed":
        return {"kind": "delayed_update", "delay_ms": float(rng.choice([0, 20, 200]))} | extra
    if way in {"rounds", "round_buckets"}:
        return {"kind": "local_steps", "steps": int(rng.integers(1, 9))} | extra
    if way == "fragments":
        fragments, interval = int(rng.integers(1, 4)), int(rng.integers(1, 6))
        return {
            "kind": "local_steps",
            "steps": fragments * interval,
            "fragments": fragments,
            "overlap_steps": int(rng.integers(0, interval)),
            "release_fraction": float(rng.choice([0.3, 1.0])),
        } | extra
    if rng.random() < 0.25:
        return {"kind": "backup_workers", "count": 1}
    return {"kind": "every_step"}
