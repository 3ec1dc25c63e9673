import contextlib
import gzip
import itertools
import re

import numpy as np
import pytest

from service.calibration.options import CalibrationOptions
from service.calibration.reading import door
from service.calibration.reading.door import read_timings
from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import TimingsRefusedError
from tests.calibration.reading.kineto_traces import all_reduce, gemm, packed, step
from tests.calibration.reading.operation_tables import passes, table
from tests.calibration.reading.small_files import HEADER, csv, fault, faults, opened, parquet, read
from tests.model.exchange.nccl_outputs import PLAIN

TABLE = csv([(0, 0, 3), (0, 1, 4)])
OPERATIONS = table([*passes(0, 0, [0.5]), *passes(0, 1, [0.5])])
NCCL = PLAIN.encode()


def test_progress_tells_the_bytes_of_all_files() -> None:
    files = [opened(TABLE, "a"), opened(csv([(1, 0, 3), (1, 1, 3)]), "b")]
    told: list[int] = []
    read_timings(files, CalibrationOptions(), told.append)
    assert told == sorted(told)
    assert told[-1] >= sum(file.num_bytes for file in files)


def test_streams_are_left_open() -> None:
    file = opened(TABLE)
    read_timings([file], CalibrationOptions())
    assert not file.stream.closed


def test_the_same_file_twice_is_refused() -> None:
    found = fault(TABLE, TABLE)
    assert (found.code, found.file) == ("duplicate_row", "file1")
    assert found.detail == "it is the same as file0, byte for byte"
    with pytest.raises(TimingsRefusedError, match="there is no file"):
        read_timings([], CalibrationOptions())


def test_files_of_several_kinds_are_refused() -> None:
    found = faults(TABLE, OPERATIONS)
    assert [(one.code, one.file) for one in found] == [
        ("mixed_formats", "file0"),
        ("mixed_formats", "file1"),
    ]
    assert found[0].detail.startswith("it is a plain table, but")
    assert found[1].detail.startswith("it is single operations, but")


def test_what_nccl_tests_printed_comes_beside_timings() -> None:
    timings = read(NCCL, TABLE)
    assert timings.nccl_tests == NCCL.decode()
    assert [(file.format, file.num_rows) for file in timings.files] == [
        ("csv", 2),
        # Of four rows one has no bytes.
        ("nccl_tests", 3),
    ]
    again = read(TABLE, NCCL, NCCL + b"# once more\n")
    assert again.nccl_tests is not None
    assert again.nccl_tests.count("# nThread") == 2
    assert read(TABLE).nccl_tests is None


def test_what_nccl_tests_printed_is_refused_alone_and_when_it_cannot_be_read() -> None:
    alone = fault(NCCL)
    assert alone.code == "no_steps"
    assert "POST /v1/collective-measurements" in alone.detail
    found = fault(TABLE, NCCL.replace(b"1089.6  123.18", b"1189.6  123.18"))
    assert (found.code, found.file) == ("unreadable_file", "file1")
    assert found.detail.startswith("output of nccl-tests: algbw is 123.18 GB/s, but ")
    assert found.line == 19
    # An all-reduce among four moves 2 x 3/4 times the bytes over the bus.
    four = re.sub(rb"#  Rank  [4-7].*\n", b"", NCCL)
    for among_8, among_4 in ((33.29, 28.53), (33.96, 29.12), (215.57, 184.77), (213.29, 182.82)):
        four = four.replace(b"%.2f" % among_8, b"%.2f" % among_4)
    found = fault(TABLE, NCCL, four)
    assert found.file == "file1, file2"
    assert "runs of 4 and of 8 ranks" in found.detail


def test_traces_are_read_decompressed() -> None:
    events = [
        event
        for number in range(4)
        for event in (
            step(number, 1000.0 * number, 900),
            gemm(1000.0 * number + 10, 500),
            gemm(1000.0 * number + 570, 100),
            all_reduce(1000.0 * number + 520, 200),
        )
    ]
    files = [packed({"traceEvents": events}, f"rank-{rank}.json.gz") for rank in range(2)]
    files[1] = packed({"traceEvents": [*events, gemm(9000, 1)]}, "rank-1.json.gz")
    timings = read_timings(files, CalibrationOptions())
    assert timings.format == "kineto"
    assert timings.ranks.tolist() == [0, 1]
    later = read_timings(files, CalibrationOptions(skip_steps=1))
    assert timings.collectives is not None
    assert later.collectives is not None
    assert later.steps.tolist() == timings.steps.tolist()[1:]
    kept = timings.collectives.step >= later.steps[0]
    assert kept.sum() == 6
    for name in ("rank", "step", "order", "members", "duration_ms"):
        np.testing.assert_array_equal(
            getattr(later.collectives, name), getattr(timings.collectives, name)[kept]
        )
    assert len(later.collectives.name) == 6
    assert later.collectives.first.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert later.collectives.before_end_start_ms.tolist() == [0.15] * 6
    assert later.collectives.before_end_stop_ms.tolist() == [0.05] * 6


def test_steps_at_the_start_are_left_out() -> None:
    header = b"step,rank,compute_ms,load_ms,step_ms\n"
    rows = [
        (10 * step, rank, 3 + step, 1, 9 + step)
        for step, rank in itertools.product(range(5), range(2))
    ]
    timings = read(csv(rows, header), skip_steps=2)
    assert timings.steps.tolist() == [20, 30, 40]
    assert timings.compute_ms[:, 0].tolist() == [5.0, 6.0, 7.0]
    assert timings.step_ms is not None
    assert timings.step_ms[:, 1].tolist() == [11.0, 12.0, 13.0]
    assert timings.load_ms is not None
    assert len(timings.load_ms) == 3
    assert timings.communication_ms is None
    assert timings.left_out[-1].count == 2
    found = fault(csv(rows, header), skip_steps=5)
    assert (found.code, found.detail) == (
        "too_few_steps",
        "skip_steps is 5, but the files have 5 steps: none is left",
    )


def test_passes_of_steps_at_the_start_are_left_out() -> None:
    rows = [
        row
        for number in range(3)
        for rank in range(2)
        for kind in ("forward-compute", "backward-compute")
        for row in passes(number, rank, [0.5 + number], kind)
    ]
    timings = read(table(rows, without=("start_ts",)), skip_steps=1)
    assert timings.passes is not None
    assert timings.passes.forward_ms.tolist() == [[1500.0] * 2, [2500.0] * 2]
    assert timings.passes.backward_ms.tolist() == [[1500.0] * 2, [2500.0] * 2]


def test_tensor_parallel_groups_are_said_by_the_caller() -> None:
    assert read(TABLE, tensor_parallel_size=4).num_gpus_per_rank == 4


def test_ranks_that_are_missing_between_others_are_named() -> None:
    (remark,) = read(csv([(0, rank, 3) for rank in (0, 1, 5, 6)])).warnings
    assert (remark.code, remark.detail) == (
        "ranks_missing",
        "of the ranks 0 to 6 there are no rows of 2, 3, 4",
    )
    (remark,) = read(csv([(0, rank, 3) for rank in (0, 1, 50)])).warnings
    assert remark.detail.endswith("2, 3, 4, 5, 6, 7, 8, 9 and 40 more")
    assert read(csv([(0, 3, 3)])).warnings == ()


def test_more_cells_than_the_limits_are_refused_with_the_numbers() -> None:
    content = csv([(step, rank, 3) for step in range(4) for rank in range(3)])
    assert read(content, limits=ReadingLimits(num_cells=12)).num_ranks == 3
    found = fault(content, limits=ReadingLimits(num_cells=11))
    assert found.code == "too_many_cells"
    assert found.detail.startswith("4 steps of 3 ranks are over 11 cells, which is the limit")
    assert "over 3 steps" in fault(content, limits=ReadingLimits(num_steps=3)).detail
    assert "over 2 ranks" in fault(content, limits=ReadingLimits(num_ranks=2)).detail


def test_steps_far_apart_take_no_more_memory() -> None:
    timings = read(csv([(10**12 - number * 10**9, 0, 3) for number in range(50)]))
    assert timings.steps.tolist() == [10**12 - number * 10**9 for number in range(49, -1, -1)]


def test_parquet_within_gzip_is_held_in_memory_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = gzip.compress(parquet({"step": [0], "rank": [0], "compute_ms": [3.0]}))
    assert read(content).num_steps == 1
    monkeypatch.setattr(door, "MAX_UNPACKED_PARQUET", 100)
    assert "has over 100 bytes; give the Parquet file itself" in fault(content).detail


def test_a_name_is_only_a_name() -> None:
    for name in ("../../etc/passwd", "a/b\\c.parquet", "\N{SNOWMAN}" * 300, ""):
        timings = read_timings([opened(TABLE, name)], CalibrationOptions())
        assert timings.files[0].name == name


def test_junk_of_any_kind_ends_in_a_refusal() -> None:
    rng = np.random.default_rng(1)
    for start in (b"", HEADER, b'{"step":0,', b"PAR1", b"[", b"\x1f\x8b\x08\x00"):
        for size in (1, 100, 70_000):
            content = start + rng.bytes(size)
            assert faults(content)


def test_bytes_that_flip_end_in_timings_or_in_a_refusal() -> None:
    rng = np.random.default_rng(2)
    rows = csv([(step, rank, 300 + rank) for step in range(20) for rank in range(4)])
    for _ in range(150):
        broken = bytearray(rows)
        for place in rng.integers(len(rows), size=3):
            broken[place] = rng.integers(256)
        with contextlib.suppress(TimingsRefusedError):
            compute_ms = read(bytes(broken)).compute_ms
            assert (compute_ms[~np.isnan(compute_ms)] > 0).all()


def rows_of(steps: range, ranks: range) -> bytes:
    return csv([(step, rank, 300 + step + rank) for step in steps for rank in ranks])


def test_a_file_of_another_run_is_refused() -> None:
    """Of a small job, whose steps are in no other file."""
    large, small = rows_of(range(100, 120), range(16)), rows_of(range(12), range(4))
    found = fault(large, small)
    assert (found.code, found.file) == ("missing_ranks", "file1")
    assert "its steps 0 to 11 are in no other file, and hold 4 of 16 ranks" in found.detail
    assert fault(small, large).file == "file0"


def test_parts_of_one_run_may_be_of_any_ranks_and_steps() -> None:
    by_rank = [rows_of(range(20), range(rank, rank + 1)) for rank in range(8)]
    assert read(*by_rank).num_ranks == 8
    by_step = [rows_of(range(step, step + 5), range(8)) for step in (0, 5, 10)]
    assert read(*by_step).num_steps == 15
    # A rank was lost in the second half, as its steps in a file of each rank.
    later = [rows_of(range(20, 40), range(rank, rank + 1)) for rank in range(7)]
    assert read(*by_rank, *later).num_steps == 40
    # A chain: the first and the last file share no step but by way of the second.
    chain = [rows_of(range(10), range(2)), rows_of(range(20), range(2, 8))]
    assert read(*chain, rows_of(range(10, 20), range(2))).num_ranks == 8
