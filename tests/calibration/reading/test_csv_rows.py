import numpy as np
import pytest

from service.calibration.reading import text_blocks
from tests.calibration.reading.small_files import HEADER, csv, fault, faults, opened, read


def test_rows_in_any_order_become_steps_and_ranks() -> None:
    timings = read(csv([(7, 3, 31.5), (5, 3, 30), (7, 0, 29), (5, 0, 28.25)]))
    assert timings.steps.tolist() == [5, 7]
    assert timings.ranks.tolist() == [0, 3]
    assert timings.compute_ms.tolist() == [[28.25, 30.0], [29.0, 31.5]]
    assert timings.files[0].num_rows == 4
    assert timings.files[0].format == "csv"
    assert timings.load_ms is timings.step_ms is None
    assert timings.nodes is None
    assert timings.includes_wait is None


def test_every_column_in_every_unit() -> None:
    header = (
        b"rank,step,load_us,compute_s,communication_ms,step_s,node,replica,stage,includes_wait,"
        b"world_size\n"
    )
    rows = [
        (r, s, 1500, 0.3, 40, 0.4, f"host{r}", r // 2, r % 2, "False", 8)
        for s in range(2)
        for r in range(4)
    ]
    timings = read(csv(rows, header))
    assert timings.load_ms is not None
    assert timings.load_ms.tolist() == [[1.5] * 4] * 2
    np.testing.assert_allclose(timings.compute_ms, 300, rtol=1e-15)
    assert timings.communication_ms is not None
    assert timings.communication_ms.tolist() == [[40.0] * 4] * 2
    assert timings.step_ms is not None
    np.testing.assert_allclose(timings.step_ms, 400, rtol=1e-15)
    assert timings.nodes is not None
    assert timings.nodes.tolist() == [0, 1, 2, 3]
    assert timings.replicas is not None
    assert timings.replicas.tolist() == [0, 0, 1, 1]
    assert timings.stages is not None
    assert timings.stages.tolist() == [0, 1, 0, 1]
    assert timings.includes_wait is False
    assert timings.world_size == 8


def test_one_row_that_includes_waiting_counts_for_all() -> None:
    header = b"step,rank,compute_ms,includes_wait\n"
    timings = read(csv([(0, 0, 3, "true"), (0, 1, 3, "0")], header))
    assert timings.includes_wait is True
    assert fault(csv([(0, 0, 3, "perhaps")], header)).detail == (
        "includes_wait is 'perhaps', not true or false"
    )


def test_a_step_without_some_ranks_has_nan() -> None:
    timings = read(csv([(0, 0, 3), (0, 1, 4), (1, 1, 5)]))
    np.testing.assert_array_equal(timings.compute_ms, [[3, 4], [np.nan, 5]])


def test_an_empty_value_beside_compute_is_a_missing_one() -> None:
    header = b"step,rank,compute_ms,load_ms,step_ms\n"
    timings = read(csv([(0, 0, 3, "", ""), (0, 1, 4, 1, "")], header))
    np.testing.assert_array_equal(timings.load_ms, [[np.nan, 1]])
    assert timings.step_ms is None


def test_a_byte_order_mark_line_ends_of_windows_and_empty_lines_are_no_matter() -> None:
    timings = read(b"\xef\xbb\xbfstep, rank,compute_ms\r\n0,0,3\r\n\r\n0,1,4\r\n")
    assert timings.compute_ms.tolist() == [[3.0, 4.0]]


def test_several_files_are_parts_of_one_table() -> None:
    parts = [csv([(step, rank, 100 + 10 * rank + step) for step in range(3)]) for rank in range(4)]
    timings = read(*parts)
    assert timings.compute_ms.tolist() == [
        [100 + 10 * rank + step for rank in range(4)] for step in range(3)
    ]
    assert [file.num_rows for file in timings.files] == [3] * 4


def test_columns_that_are_not_read_are_named() -> None:
    header = b"step,rank,compute_ms,host temperature,," + b",".join(b"x%d" % i for i in range(9))
    (remark,) = read(header + b"\n0,0,3,," + b"," * 9 + b"\n0,1,3,," + b"," * 9 + b"\n").warnings
    assert remark.code == "columns_left_out"
    assert remark.detail == (
        "columns that are not read: 'host temperature', '', 'x0', 'x1', 'x2', 'x3', 'x4', 'x5' "
        "and 3 more"
    )


def test_nodes_by_number_keep_it_and_by_name_are_in_its_order() -> None:
    header = b"step,rank,compute_ms,node\n"
    numbered = read(csv([(0, 0, 3, 12), (0, 1, 3, 7), (0, 2, 3, 12)], header))
    assert numbered.nodes is not None
    assert numbered.nodes.tolist() == [12, 7, 12]
    named = read(csv([(0, 0, 3, "c"), (0, 1, 3, "a"), (0, 2, 3, "c"), (0, 3, 3, "b")], header))
    assert named.nodes is not None
    assert named.nodes.tolist() == [2, 0, 2, 1]


def test_a_label_that_only_some_ranks_have_is_not_used() -> None:
    timings = read(b"step,rank,compute_ms,stage\n0,0,3,0\n", HEADER + b"0,1,3\n")
    assert timings.stages is None
    assert timings.warnings[0].detail == "not every rank has a stage, so it is not used"


@pytest.mark.parametrize(
    ("text", "code", "line", "detail"),
    [
        (b"0,0,NaN", "bad_value", 4, "compute_ms is NaN, which is no duration"),
        (b"0,0,-3", "bad_value", 4, "compute_ms is -3, but a duration is not negative"),
        (b"0,0,0", "bad_value", 4, "compute_ms is 0, but nobody computes"),
        (b"0,0,inf", "sentinel_value", 4, "compute_ms is inf"),
        (b"0,0,-1", "sentinel_value", 4, "compute_ms is -1, which programs write for no value"),
        (b"0,0,9223372036854775794", "sentinel_value", 4, "compute_ms is 9.22337e+18"),
        (b"0,0,1e18", "sentinel_value", 4, "compute_ms is 1e+18"),
        (b"0,0,", "bad_value", 4, "compute_ms has no value; leave the row out"),
        (b"0,0,x", "bad_value", 4, "compute_ms is 'x', which is not a number"),
        (b'0,0,"3,5"', "bad_value", 4, "write decimals with a point, not with a comma"),
        (b"0,0,3,5", "bad_value", 4, "4 values, but the header has 3 names; decimals"),
        (b"0,0", "bad_value", 4, "2 values, but the header has 3 names"),
        (b"0,1.5,3", "bad_value", 4, "rank is '1.5', which is not a whole number"),
        (b"0,,3", "bad_value", 4, "rank has no value"),
        (b"-4,0,3", "bad_value", 4, "step is -4, but it is a number from 0 to 1000000000000"),
        (b"0,99999999,3", "bad_value", 4, "rank is 99999999, but it is a number from 0 to"),
        (b"0,0,\xff\xfe", "bad_value", 4, "which is not a number"),
        (b"9,9,3", "duplicate_row", 4, "rank 9 has step 9 twice, first in line 2"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(text: bytes, code: str, line: int, detail: str) -> None:
    found = fault(HEADER + b"9,9,3\n\n" + text + b"\n8,8,3\n")
    assert (found.code, found.line, found.file) == (code, line, "file0")
    assert detail in found.detail


def test_the_line_is_right_beyond_the_first_block() -> None:
    rows = b"".join(b"%d,0,310.123456789\n" % step for step in range(400_000))
    found = fault(HEADER + b"\n" + rows + b"400000,0,-1\n")
    assert len(rows) > text_blocks.BLOCK_BYTES
    assert found.line == 400_003
    found = fault(HEADER + b"\n" + rows + b"399999,0,3\n")
    assert (found.line, found.detail) == (
        400_003,
        "rank 0 has step 399999 twice, first in line 400002",
    )


@pytest.mark.parametrize(
    ("text", "code", "detail"),
    [
        (b"step;rank;compute_ms\n0;0;3,5\n", "unreadable_file", "separated by semicolons"),
        (b"step\trank\tcompute_ms\n0\t0\t3\n", "unreadable_file", "separated by tabs"),
        (b"0,0,3.5\n0,1,3.5\n", "missing_column", "the first line is '0,0,3.5', all numbers"),
        (HEADER, "no_steps", "no row beneath the names"),
        (b"step," * 20_000, "unreadable_file", "over 65536 bytes, so it is no header"),
        (HEADER + b"0,0,3\n" + b"1" * 9_000_000, "unreadable_file", "a line has over 1048576"),
        (b"step\n3\n", "missing_column", "there is no column rank"),
    ],
)
def test_what_is_no_table_is_refused(text: bytes, code: str, detail: str) -> None:
    found = faults(text)[0]
    assert found.code == code
    assert detail in found.detail


def test_a_rank_that_moves_is_refused() -> None:
    header = b"step,rank,compute_ms,node\n"
    found = fault(csv([(0, 0, 3, "a"), (0, 1, 3, "a"), (1, 0, 3, "b")], header))
    assert found.line == 4
    assert found.detail.startswith("rank 0 has another node than in a row before")
    found = fault(csv([(0, 0, 3, "a"), (0, 1, 3, "")], header))
    assert (found.line, found.detail) == (3, "node has no value")
    found = fault(csv([(0, 0, 3, "a"), (0, 1, 3, "b" * 300)], header))
    assert found.line == 3
    assert "1 to 256 characters" in found.detail


def test_text_that_is_no_utf_8_is_refused() -> None:
    found = fault(b"step,rank,compute_ms,node\n0,0,3,a\n0,1,3,\xff\n")
    assert found.code in {"bad_value", "unreadable_file"}
    assert "UTF8" in found.detail


def test_a_line_that_goes_on_over_blocks_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 5)
    timings = read(csv([(step, rank, 100 + rank) for step in range(9) for rank in range(3)]))
    assert timings.compute_ms.tolist() == [[100.0, 101.0, 102.0]] * 9


def test_the_size_of_the_job_is_one_number() -> None:
    header = b"step,rank,compute_ms,world_size\n"
    found = fault(csv([(0, 0, 3, 8), (0, 1, 3, 16)], header))
    assert (found.line, found.detail) == (3, "world_size is 16, but a row before says 8")
    found = fault(csv([(0, 0, 3, 0)], header))
    assert found.detail == "world_size is 0, but it is a number from 1 to 10000000"


def test_line_of_a_row_that_is_not_there() -> None:
    assert text_blocks.line_of_text(opened(b"a\n"), 7) == 1
