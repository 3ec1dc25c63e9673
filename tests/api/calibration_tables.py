"""Small tables of timings with a known truth, as files to upload."""

import hashlib
import io
from functools import cache

import numpy as np

from service.calibration.findings import Findings
from service.calibration.fit import fit
from service.calibration.options import CalibrationOptions
from service.calibration.reading.door import OpenFile, read_timings
from service.db.engine import Database
from service.jobs.actors import Actor
from service.jobs.calibration_documents import CalibrationOut
from service.jobs.calibrations import Found, store
from service.jobs.profiles import ResolvedProfile

NUM_RANKS = 8
NUM_STEPS = 24
SLOW_RANK = 3
SLOW_FRACTION = 0.7


def table(num_ranks: int = NUM_RANKS, num_steps: int = NUM_STEPS, seed: int = 1) -> bytes:
    """A CSV of compute and communication; one rank runs at 70 %, the others differ by 1 %."""
    generator = np.random.default_rng(seed)
    speeds = generator.normal(1, 0.01, num_ranks)
    speeds[SLOW_RANK] = 1 / SLOW_FRACTION
    cells = 300 * speeds * generator.normal(1, 0.01, (num_steps, num_ranks))
    lines = ["step,rank,compute_ms,communication_ms"]
    lines += [
        f"{step},{rank},{cells[step, rank]:.4f},{80 + generator.random():.4f}"
        for step in range(num_steps)
        for rank in range(num_ranks)
    ]
    return "\n".join([*lines, ""]).encode()


def timed_table(num_ranks: int = NUM_RANKS) -> bytes:
    """The table with steps that take 80 ms longer than the slowest rank computes."""
    head, *lines = table(num_ranks).decode().splitlines()
    steps: list[str] = []
    for start in range(0, len(lines), num_ranks):
        rows = lines[start : start + num_ranks]
        whole = max(float(row.split(",")[2]) for row in rows) + 80
        steps += [f"{row},{whole:.4f}" for row in rows]
    return "\n".join([f"{head},step_ms", *steps, ""]).encode()


@cache
def findings() -> Findings:
    """What the table tells, read and fitted in this process."""
    content = table()
    file = OpenFile(
        name="timings.csv",
        stream=io.BytesIO(content),
        num_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    options = CalibrationOptions()
    return fit(read_timings([file], options), options)


def found(name: str = "a run", profile: ResolvedProfile | None = None) -> Found:
    """The findings of the table, before they are stored."""
    return Found(name=name, profile=profile, options=CalibrationOptions(), findings=findings())


def stored(database: Database, actor: Actor, name: str = "a run") -> CalibrationOut:
    """A calibration of the actor's team, without the upload and its process."""
    with database.write() as connection:
        return store(connection, actor, found(name))
