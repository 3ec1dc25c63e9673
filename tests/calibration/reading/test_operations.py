import io
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.calibration.reading.limits import ReadingLimits
from tests.calibration.reading.operation_tables import Row, operation, passes, table
from tests.calibration.reading.small_files import fault, faults, parquet, read

BACKWARD = "backward-compute"


def job(num_steps: int = 3, num_replicas: int = 2, num_stages: int = 2) -> list[Row]:
    """Two micro-batches; each rank waits for 0.125 s between its two kinds of pass.

    Durations are sums of powers of two, which float32 holds.
    """
    rows: list[Row] = []
    for step, replica, stage in itertools.product(
        range(num_steps), range(num_replicas), range(num_stages)
    ):
        rank = stage * num_replicas + replica
        place: dict[str, Any] = {"dp_rank": replica, "stage": stage}
        forward = 0.25 * (1 + stage) + 0.0625 * step
        backward = 0.5 * (1 + stage) + 0.125 * replica
        rows += passes(step, rank, [forward, forward], **place)
        rows.append(operation(step, rank, "backward-recv", 1 + 2 * forward, 0.125, **place))
        start = 1.125 + 2 * forward
        rows += [
            {**row, "start_ts": row["start_ts"] - 1 + start}
            for row in passes(step, rank, [backward, backward], BACKWARD, **place)
        ]
    return rows


def test_compute_passes_and_windows_by_hand() -> None:
    rows = job()
    timings = read(table(rows[::-1]))
    assert timings.format == "operations"
    assert timings.steps.tolist() == [0, 1, 2]
    assert timings.ranks.tolist() == [0, 1, 2, 3]
    assert timings.stages is not None
    assert timings.stages.tolist() == [0, 0, 1, 1]
    assert timings.replicas is not None
    assert timings.replicas.tolist() == [0, 1, 0, 1]
    # Twice forward and backward of step 1: stage 0, replica 1: 2 (0.25 + 0.0625 + 0.5 + 0.125)
    assert timings.compute_ms[1].tolist() == [1625.0, 1875.0, 3125.0, 3375.0]
    assert timings.step_ms is not None
    # From first start to last end they take 1750, 2000, 3250, 3500: all wait for the last
    assert timings.step_ms[1].tolist() == [3500.0] * 4
    assert timings.passes is not None
    assert timings.passes.num_microbatches == 2
    assert timings.passes.forward_ms[1].tolist() == [312.5, 312.5, 562.5, 562.5]
    assert timings.passes.backward_ms[1].tolist() == [500.0, 625.0, 1000.0, 1125.0]
    assert timings.communication_ms is None
    assert timings.includes_wait is False
    assert timings.left_out == ()
    assert timings.warnings == ()
    assert timings.files[0].num_rows == len(rows)


def test_several_files_are_parts_of_one_trace() -> None:
    rows = job()
    whole = read(table(rows))
    by_rank = [table([row for row in rows if row["rank"] == rank]) for rank in (3, 0, 2, 1)]
    parts = read(*by_rank)
    np.testing.assert_array_equal(parts.compute_ms, whole.compute_ms)
    np.testing.assert_array_equal(parts.step_ms, whole.step_ms)
    assert [file.format for file in parts.files] == ["operations"] * 4


def test_a_micro_batch_passes_through_all_chunks_of_a_rank() -> None:
    rows = [
        {**row, "mc": chunk, "mb_id": number}
        for rank in range(2)
        for number in range(3)
        for chunk in range(2)
        for kind, duration in (("forward-compute", 0.5), (BACKWARD, 1.0))
        for row in [operation(0, rank, kind, number, duration)]
    ]
    found = read(table(rows)).passes
    assert found is not None
    assert found.num_microbatches == 3
    assert found.forward_ms.tolist() == [[1000.0, 1000.0]]
    assert found.backward_ms.tolist() == [[2000.0, 2000.0]]


def test_without_the_columns_that_may_be_missing() -> None:
    timings = read(table(job(), without=("dp_rank", "stage", "start_ts", "mb_id", "mc", "gmc")))
    assert timings.stages is timings.replicas is None
    assert timings.step_ms is None
    assert timings.passes is not None
    assert timings.passes.num_microbatches == 2
    assert [(remark.code, remark.detail) for remark in timings.warnings] == [
        ("no_step_time", "the files have no start_ts, so they do not tell the time of a step")
    ]


def test_ranks_of_tensor_parallel_groups() -> None:
    rows = [{**row, "rank": 4 * row["rank"]} for row in job()]
    (remark,) = read(table(rows)).warnings
    assert remark.code == "ranks_apart"
    assert remark.detail.startswith("the ranks are 4 apart, from 0 to 12")
    said = read(table(rows), tensor_parallel_size=4)
    assert said.warnings == ()
    assert said.num_gpus_per_rank == 4


def test_a_cell_that_was_cut_off_is_left_out() -> None:
    rows = job()
    cut = [row for row in rows if (row["step"], row["rank"], row["mb_id"]) != (1, 2, 1)]
    timings = read(table(cut))
    assert np.argwhere(np.isnan(timings.compute_ms)).tolist() == [[1, 2]]
    assert timings.left_out[0].count == 1
    assert timings.left_out[0].reason.startswith("cells with fewer passes than")
    assert timings.step_ms is not None
    assert timings.step_ms[1].tolist() == pytest.approx([3500, 3500, np.nan, 3500], nan_ok=True)


def test_a_rank_without_a_step_has_nan() -> None:
    rows = [row for row in job() if (row["step"], row["rank"]) != (1, 2)]
    timings = read(table(rows))
    assert np.argwhere(np.isnan(timings.compute_ms)).tolist() == [[1, 2]]
    assert timings.left_out == ()


def test_ranks_with_different_numbers_of_passes_have_no_pipeline() -> None:
    rows = passes(0, 0, [0.5, 0.5]) + passes(0, 1, [0.5])
    assert read(table(rows)).passes is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"start_ts": 1.7e9}, "start_ts is told to 128000 ms only, too coarse"),
        ({"start_ts": float("nan")}, "start_ts is no number"),
        ({"start_ts": 0.0}, "a rank computes for longer than from its first start_ts"),
    ],
)
def test_starts_that_tell_no_time_of_a_step(changed: dict[str, float], reason: str) -> None:
    timings = read(table([{**row, **changed} for row in job()]))
    assert timings.step_ms is None
    (remark,) = timings.warnings
    assert remark.code == "no_step_time"
    assert remark.detail.startswith(reason)


def test_starts_in_double_precision_may_be_of_any_clock() -> None:
    rows = [{**row, "start_ts": row["start_ts"] + 1_700_000_000} for row in job()]
    step_ms = read(table(rows, start_ts="float64")).step_ms
    assert step_ms is not None
    np.testing.assert_allclose(step_ms[1], [3500.0] * 4, rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "code", "detail"),
    [
        ({"duration": float("nan")}, "bad_value", "row 2: duration is nan s; it is a number from"),
        ({"duration": -1.0}, "sentinel_value", "row 2: duration is -1 s"),
        ({"duration": -0.5}, "bad_value", "row 2: duration is -0.5 s"),
        ({"duration": 0.0}, "bad_value", "over 0 for compute"),
        ({"duration": float("inf")}, "sentinel_value", "row 2: duration is inf s"),
        ({"rank": -1}, "bad_value", "row 2: rank is -1"),
        ({"step": -1}, "bad_value", "row 2: step is -1"),
        ({"step": None}, "bad_value", "row 2: step has no value"),
        ({"stage": 5}, "bad_value", "row 2: rank 0 has another stage than in a row before"),
        ({"optype": None}, "bad_value", "row 2: optype has no value"),
        ({"optype": "x" * 300}, "bad_value", "one of over 256 characters"),
    ],
)
def test_a_bad_row_is_refused_with_its_number(
    changed: dict[str, object], code: str, detail: str
) -> None:
    rows = passes(0, 0, [0.5, 0.5, 0.5])
    rows[1] = {**rows[1], **changed}
    found = fault(table(rows))
    assert (found.code, found.file) == (code, "file0")
    assert detail in found.detail


def test_operations_that_are_there_twice_are_refused() -> None:
    rows = job()
    found = fault(table(rows), table([row for row in rows if row["step"] == 2]))
    assert found.code == "duplicate_row"
    assert found.detail.startswith(
        "rank 0 has 4 passes in step 2, but 2 different micro-batches (mb_id, mc)"
    )


def test_files_without_compute_are_refused() -> None:
    found = fault(table([operation(0, 0, "matmul", 0, 1), operation(0, 0, "send", 0, 1)]))
    assert found.code == "unknown_kernel_names"
    assert found.detail.endswith("types seen: 'matmul', 'send'")
    assert fault(parquet({"step": [], "rank": [], "optype": [], "duration": []})).code == "no_steps"


def test_missing_and_repeated_columns_are_refused() -> None:
    found = faults(parquet({"optype": ["forward-compute"], "duration": [1.0]}))
    assert [(one.code, one.detail.split(",")[0]) for one in found] == [
        ("missing_column", "there is no column step"),
        ("missing_column", "there is no column rank"),
    ]


def test_a_column_that_is_there_twice_is_refused() -> None:
    names = ["step", "rank", "optype", "duration", "rank"]
    arrays: list[Any] = [
        pa.array([0]),
        pa.array([0]),
        pa.array(["forward-compute"]),
        pa.array([1.0]),
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([*arrays, arrays[1]], names), sink)
    assert fault(sink.getvalue()).detail == "the column rank is there twice"


def test_durations_in_other_units_are_refused() -> None:
    rows = [{**row, "duration": 1000 * row["duration"]} for row in job()]
    found = fault(table(rows))
    assert found.code == "implausible_units"
    assert "over 100 s: are these ms?" in found.detail


def test_more_cells_than_the_limit_are_refused() -> None:
    content = table(job())
    assert read(content, limits=ReadingLimits(num_cells=12)).num_steps == 3
    for limits in (
        ReadingLimits(num_cells=11),
        ReadingLimits(num_steps=2),
        ReadingLimits(num_ranks=3),
    ):
        assert fault(content, limits=limits).code == "too_many_cells"
