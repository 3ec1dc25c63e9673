"""Rows of the oracle as whole scenarios: compute 1 000 ms, or 300 with buckets, and no load."""

import numpy as np
import pytest

from service.model.columns import columns_of, joined
from service.model.kernel import Results, evaluate
from service.model.scenario import decode_scenario
from tests.model.exchange.exchanges import OracleRow, oracle

SECOND = 1000.0
# Beside that of a row: how far a simulation may be off, in its standard errors.
MOST_ERRORS = 4


def evaluated(documents: list[dict[str, object]]) -> Results:
    points = [columns_of(decode_scenario(document)) for document in documents]
    return evaluate(joined(points), with_spread=False)


def buckets_of(row: OracleRow) -> dict[str, object]:
    given = row.inputs
    compute = SECOND * (given["fwd"] + given["bwd"])
    document: dict[str, object] = {
        "num_gpus": given.get("N", 1),
        "compute_ms": compute,
        "backward_fraction": SECOND * given["bwd"] / compute,
        "communication": {"kind": "fixed", "allreduce_ms": SECOND * given["comm_total"]},
        "overlap": {"kind": "buckets", "num_buckets": given["buckets"]},
    }
    if "speed" in given:
        document["variability"] = {"transient": {"kind": "normal", "cv": 0.05}}
    return document


@pytest.mark.parametrize("model", ["ddp_step_s", "ddp_step_mean_with_rank_jitter_s"])
def test_buckets(model: str) -> None:
    rows = oracle(model)
    found = evaluated([buckets_of(row) for row in rows]).columns["step_mean_ms"] / SECOND
    for row, mean in zip(rows, found, strict=True):
        assert abs(mean - row.expected) < float(row.tolerance) + 1e-12, row


def rounds_of(row: OracleRow) -> dict[str, object] | None:
    """None where lasting and single steps' factors add up in the row: here they multiply."""
    given = row.inputs
    variability: dict[str, object] = {}
    if given["dist"] == "normal":
        if given["cv_within"] and given["cv_persistent"]:
            return None
        name = "transient" if given["cv_within"] else "persistent"
        cv = given["cv_within"] or given["cv_persistent"]
        variability[name] = {"kind": "normal", "cv": cv}
    elif given["dist"] == "AR1 normal":
        variability["transient"] = {"kind": "normal", "cv": given["cv"]}
        variability["autocorrelation"] = given["phi"]
    else:
        variability["transient"] = {"kind": given["dist"], "cv": given.get("cv", 1.0)}
    return {
        "num_gpus": given["N"],
        "compute_ms": SECOND,
        "variability": variability,
        "synchronization": {"kind": "local_steps", "steps": given["H"]},
    }


def test_local_steps() -> None:
    pairs = [(row, rounds_of(row)) for row in oracle("local_steps_mean_max_per_step")]
    known = [(row, document) for row, document in pairs if document is not None]
    assert len(known) >= 10
    found = evaluated([document for _, document in known]).columns["step_mean_ms"] / SECOND
    for (row, _), mean in zip(known, found, strict=True):
        assert abs(mean - row.expected) < float(row.tolerance), row


def test_bounded_staleness_of_equal_and_unequal_ranks() -> None:
    """Unequal ones as slow groups: their factors are 1 / 0.7 times as long, and as wide."""
    rows = [row for row in oracle("ssp_rate_per_worker") if row.inputs["dist"] == "exponential"]
    rows = [row for row in rows if row.inputs.get("N", 4) <= 4]
    documents: list[dict[str, object]] = []
    for row in rows:
        slow = sum(rate == 0.7 for rate in row.inputs.get("rates", []))
        documents.append(
            {
                "num_gpus": row.inputs.get("N", len(row.inputs.get("rates", []))),
                "compute_ms": SECOND,
                "variability": {"transient": {"kind": "exponential", "cv": 1.0}},
                "slow_groups": [{"count": slow, "speed_fraction": 0.7}] if slow else [],
                "synchronization": {
                    "kind": "bounded_staleness",
                    "staleness": row.inputs["s"],
                },
            }
        )
    found = evaluated(documents).columns
    for place, row in enumerate(rows):
        rate = SECOND / found["step_mean_ms"][place]
        share = found["gpu_hours_lost_se"][place] / found["gpu_hours_available"][place]
        error = rate * share / found["efficiency_fraction"][place]
        assert abs(rate - row.expected) < MOST_ERRORS * error + float(row.tolerance), row
        assert error < 0.01 or np.isclose(error, 0)
