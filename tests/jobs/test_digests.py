"""Digests of scenarios are kept for good: batches are found by them years later."""

from typing import Any

import pytest

from service.jobs.digests import digest
from service.model.scenario import decode_scenario, normalised

# As the first versions made them, before scenarios told links, overlap and waiting.
OF_FIRST_VERSIONS = (
    (
        {"num_gpus": 1024, "compute_ms": 300},
        "f03631528a669ff33ae18b2b2101539fdf714bc70729a700035439b11dfd2900",
    ),
    (
        {
            "num_gpus": 1024,
            "load_ms": 30,
            "compute_ms": 300,
            "communication": {"kind": "fixed", "allreduce_ms": 80},
            "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        },
        "06c045e640f18dad4a47e71af59dc66baf0f9d6d30306899176eb73e3886d5a6",
    ),
    (
        {
            "num_gpus": 1024,
            "load_ms": 30,
            "compute_ms": 300,
            "communication": {"kind": "fixed"},
            "synchronization": {"kind": "every_step"},
        },
        "d4c318ef4f96cba171ecef3cd38025e1918a6b5b947e90f38a2fff25eea88fc9",
    ),
    (
        {
            "num_gpus": 64,
            "compute_ms": 300,
            "communication": {"kind": "fixed", "allreduce_ms": 0},
            "synchronization": {"kind": "backup_workers", "count": 2},
            "variability": {"transient": {"kind": "normal", "cv": 0.05}},
        },
        "244c75eaa52804845073a08acaea05a1e713c95956094f8eede21d7fecd3e4e9",
    ),
)
PLAIN: dict[str, Any] = {"num_gpus": 64, "compute_ms": 300}
RING: dict[str, Any] = {"kind": "ring", "parameters": 7e9, "link": {"latency_us": 10}}


def of(document: dict[str, Any]) -> str:
    return digest(normalised(decode_scenario(document)))


@pytest.mark.parametrize(("document", "expected"), OF_FIRST_VERSIONS)
def test_documents_of_the_first_versions_keep_their_digests(
    document: dict[str, Any], expected: str
) -> None:
    assert of(document) == f"sha256:{expected}"


def test_what_is_written_out_is_the_same_as_what_is_left_out() -> None:
    written = {
        **PLAIN,
        "backward_fraction": 2 / 3,
        "communication": {"kind": "fixed", "allreduce_ms": 0},
        "overlap": {"kind": "none", "load_prefetch": False},
    }
    assert of(written) == of(PLAIN)
    link = {"bandwidth_gigabytes_per_s": 50}
    short = {**PLAIN, "communication": {**RING, "link": link}}
    nothing = {"preset": None, "flows": None, "window_bytes": None}
    long = {
        **PLAIN,
        "communication": {
            **RING,
            "bytes_per_parameter": 2.0,
            "compression_ratio": 1,
            "link": {**link, **nothing},
        },
    }
    assert of(short) == of(long) != of(PLAIN)
