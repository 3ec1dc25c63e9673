"""What is left out is null, and nothing else moves by a bit."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.model.answer_parts import PART_COLUMNS
from service.model.columns import Columns, columns_of
from service.model.kernel import evaluate
from service.model.results import COLUMN_NAMES
from service.model.scenario import decode_fields, decode_scenario
from tests.model import random_pipes, random_waits
from tests.soak.whole_steps import sound_scenario

NORMAL = {"kind": "normal", "cv": 0.03}
TABLE = {"kind": "empirical", "quantiles": [0.9, 1.0, 1.3], "allow_extrapolation": True}
EVERY_SOURCE: dict[str, Any] = {
    "persistent": {"kind": "lognormal", "cv": 0.02},
    "node": {"kind": "normal", "cv": 0.01},
    "transient": {"kind": "gamma", "cv": 0.05},
    "replica": NORMAL,
    "common": {"kind": "normal", "cv": 0.01},
    "spikes": {"probability": 0.001, "slowdown": 1.5},
    "episodes": {"rate_per_gpu_day": 0.01, "mean_hours": 2, "severity": 1.3},
}
BASE: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "draws": 64,
}
BUCKETS = {"kind": "buckets", "num_buckets": 4, "load_prefetch": True}
SCENARIOS: dict[str, dict[str, Any]] = {
    "nothing varies": {},
    "every source": {"variability": EVERY_SOURCE},
    **{source: {"variability": {source: given}} for source, given in EVERY_SOURCE.items()},
    "backup workers": {
        "variability": {"transient": NORMAL, "spikes": EVERY_SOURCE["spikes"]},
        "synchronization": {"kind": "backup_workers", "count": 2},
    },
    "spares": {"variability": {"persistent": NORMAL}, "num_spare_gpus": 8},
    "a table": {"variability": {"transient": TABLE, "common": NORMAL}},
    "episodes behind buckets": {
        "variability": {name: EVERY_SOURCE[name] for name in ("transient", "episodes")},
        "slow_groups": [],
        "overlap": BUCKETS,
    },
    "one source behind buckets": {"variability": {"transient": NORMAL}, "overlap": BUCKETS},
    "failures": {
        "variability": {"transient": NORMAL, "persistent": NORMAL},
        "failures": {"mtbf_hours_per_gpu": 1e4, "checkpoint_write_s": 30},
    },
}
ALL_PARTS = tuple(PART_COLUMNS)

Found = dict[str, NDArray[Any]]


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Those above, and random ones of all ways of waiting and of all kinds of pipelines."""
    for name, changes in SCENARIOS.items():
        yield name, {**BASE, **changes}
    for way in random_waits.WAYS:
        yield way, {**sound_scenario(np.random.default_rng(1), way), "draws": 16}
    for way in random_pipes.WAYS:
        document = random_pipes.sound_scenario(np.random.default_rng(2), way)
        yield f"pipeline {way}", {**document, "draws": 16}


DOCUMENTS = dict(documents())


def results(columns: Columns, parts: tuple[str, ...] = ()) -> Found:
    found = evaluate(columns, **{f"with_{part}": False for part in parts})
    assert found.failure[0] == 0
    return found.columns


def is_empty(values: NDArray[Any]) -> bool:
    return bool(values[0] == -1 if values.dtype == np.int8 else np.isnan(values[0]))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_left_out_is_null_and_nothing_else_moves(name: str) -> None:
    columns = columns_of(decode_scenario(DOCUMENTS[name]))
    whole = results(columns)
    each = [(part,) for part in ALL_PARTS] if name in SCENARIOS else []
    for parts in (ALL_PARTS, *each):
        found = results(columns, parts)
        assert tuple(found) == COLUMN_NAMES
        left_out = {column for part in parts for column in PART_COLUMNS[part]}
        for column, values in found.items():
            assert values.dtype == whole[column].dtype, column
            if column in left_out:
                assert is_empty(values), (parts, column)
            else:
                # Bit for bit, NaN and the sign of nothing included.
                assert values.tobytes() == whole[column].tobytes(), (parts, column)


def test_no_column_is_left_out_in_vain() -> None:
    """Every column of a part is known somewhere, and none belongs to two parts."""
    known: set[str] = set()
    for name in ("every source", "pipeline as_ranks"):
        found = results(columns_of(decode_scenario(DOCUMENTS[name])))
        known |= {column for column, values in found.items() if not is_empty(values)}
    listed = [column for columns in PART_COLUMNS.values() for column in columns]
    assert len(set(listed)) == len(listed)
    assert set(listed) <= known


def test_failed_points_stay_failed() -> None:
    broken = decode_fields({**BASE, "num_evicted_gpus": 64})
    found = evaluate(columns_of(broken), with_causes=False)
    assert found.failure[0] > 0
    assert np.isnan(found.columns["gpu_hours_lost"][0])
