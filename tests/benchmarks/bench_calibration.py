"""Calibration on one core: rows of observed timings, against pandas doing the same sums."""

import gzip
import hashlib
import io
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pandas as pd

from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.reading.door import OpenFile, read_timings
from tests.benchmarks.results_table import markdown_table

ROUNDS = 5
NUM_STEPS, NUM_RANKS = 1_000, 512
NUM_ROWS = NUM_STEPS * NUM_RANKS
OPTIONS = CalibrationOptions()
Sums = tuple[float, float, float, float]


def rows() -> list[dict[str, str]]:
    """Medians over rounds in which both sides run one after the other."""
    table = observed()
    csv = table.to_csv(index=False).encode()
    sink = io.BytesIO()
    table.to_parquet(sink, index=False)
    parquet = sink.getvalue()
    lines = table.to_json(orient="records", lines=True).encode()
    packed = gzip.compress(csv, 6)
    what = f"{NUM_STEPS:,} steps of {NUM_RANKS} ranks, with load, compute and step"
    return [
        _row(f"CSV ({what}) read; against read_csv", lambda: read(csv), lambda: of_csv(csv)),
        _row("the same compressed by gzip", lambda: read(packed), lambda: of_packed(packed)),
        _row("as JSON Lines; against read_json", lambda: read(lines), lambda: of_lines(lines)),
        _row(
            "as Parquet; against read_parquet", lambda: read(parquet), lambda: of_parquet(parquet)
        ),
        _row(
            "CSV read and fitted: components with intervals, outliers, families on held-out steps; "
            "against read_csv, groupby and the components alone",
            lambda: fit(read_timings([opened(csv)], OPTIONS), OPTIONS),
            lambda: sums(of_csv(csv)),
        ),
        _row(
            "Parquet read and fitted; against read_parquet, groupby and the components alone",
            lambda: fit(read_timings([opened(parquet)], OPTIONS), OPTIONS),
            lambda: sums(of_parquet(parquet)),
        ),
    ]


def observed() -> pd.DataFrame:
    """A table of known spread, 1 % per step and 2 % for good."""
    rng = np.random.default_rng(9)
    compute_ms = 300 * rng.normal(1, 0.02, NUM_RANKS) * rng.normal(1, 0.01, (NUM_STEPS, NUM_RANKS))
    step_ms = compute_ms.max(axis=1, keepdims=True) + 20
    return pd.DataFrame(
        {
            "step": np.repeat(np.arange(NUM_STEPS), NUM_RANKS),
            "rank": np.tile(np.arange(NUM_RANKS), NUM_STEPS),
            "load_ms": np.full(NUM_ROWS, 1.25),
            "compute_ms": compute_ms.reshape(-1).round(6),
            "step_ms": np.broadcast_to(step_ms, compute_ms.shape).reshape(-1).round(6),
        }
    )


def opened(content: bytes) -> OpenFile:
    """The bytes as the door takes them."""
    return OpenFile(
        name="run",
        stream=io.BytesIO(content),
        num_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def read(content: bytes) -> object:
    """Every check, and the matrices of steps and ranks."""
    return read_timings([opened(content)], OPTIONS)


def of_csv(content: bytes) -> pd.DataFrame:
    """As one would."""
    return pd.read_csv(io.BytesIO(content))


def of_packed(content: bytes) -> pd.DataFrame:
    """As one would."""
    return pd.read_csv(io.BytesIO(content), compression="gzip")


def of_lines(content: bytes) -> pd.DataFrame:
    """As one would."""
    return pd.read_json(io.BytesIO(content), lines=True)


def of_parquet(content: bytes) -> pd.DataFrame:
    """As one would."""
    return pd.read_parquet(io.BytesIO(content))


def sums(table: pd.DataFrame) -> Sums:
    """Two-way components, and the slowest against the mean, as coefficients of variation."""
    compute_ms = table.compute_ms
    mean_ms = compute_ms.mean()
    by_rank, by_step = table.groupby("rank").compute_ms, table.groupby("step").compute_ms
    rest = compute_ms - by_rank.transform("mean") - by_step.transform("mean") + mean_ms
    num_ranks, num_steps = by_rank.ngroups, by_step.ngroups
    rest_square = float((rest**2).sum()) / ((num_ranks - 1) * (num_steps - 1))
    persistent = by_rank.mean().var() - rest_square / num_steps
    common = by_step.mean().var() - rest_square / num_ranks
    slowest = (by_step.max() / by_step.mean()).mean()
    squares = np.maximum([persistent, common, rest_square], 0)
    persistent_cv, common_cv, rest_cv = (np.sqrt(squares) / mean_ms).tolist()
    return persistent_cv, common_cv, rest_cv, float(slowest)


def _row(measure: str, mine: Callable[[], object], other: Callable[[], object]) -> dict[str, str]:
    mine_rates, other_rates = [], []
    for _ in range(ROUNDS):
        mine_rates.append(NUM_ROWS / _seconds(mine))
        other_rates.append(NUM_ROWS / _seconds(other))
    ratios = [a / b for a, b in zip(mine_rates, other_rates, strict=True)]
    return {
        "measure": measure,
        "Trainard": f"{median(mine_rates):,.0f} rows/s",
        "other": f"{median(other_rates):,.0f} rows/s",
        "ratio": f"{median(ratios):,.2f}",
        "target": "none was set",
    }


def _seconds(run: Callable[[], object]) -> float:
    # Processor time: the figure is for one core, whatever else the machine is doing.
    start = time.process_time()
    run()
    return time.process_time() - start


if __name__ == "__main__":
    print(markdown_table(rows()))
