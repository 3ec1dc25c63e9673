import numpy as np
import pytest

from service.calibration.reading import text_blocks
from tests.calibration.reading.small_files import fault, faults, read

ROW = b'{"step":0,"rank":0,"compute_ms":3.5}\n'


def test_rows_with_every_kind_of_column() -> None:
    timings = read(
        b'{"step": 4, "rank": 1, "compute_s": 0.25, "load_ms": null, "node": "b", "replica": 3, '
        b'"includes_wait": false, "world_size": 2, "note": {"any": [1]}}\r\n'
        b"\n"
        b'{"rank": 0, "step": 4, "compute_s": 0.5, "load_ms": 1, "node": 7, "replica": 3, '
        b'"includes_wait": false, "world_size": 2}'
    )
    assert timings.steps.tolist() == [4]
    assert timings.compute_ms.tolist() == [[500.0, 250.0]]
    np.testing.assert_array_equal(timings.load_ms, [[1, np.nan]])
    assert timings.nodes is not None
    assert timings.nodes.tolist() == [0, 1]
    assert timings.replicas is not None
    assert timings.replicas.tolist() == [3, 3]
    assert timings.includes_wait is False
    assert timings.world_size == 2
    assert timings.files[0].format == "jsonl"
    assert timings.files[0].num_rows == 2
    assert timings.warnings[0].detail == "columns that are not read: 'note'"


def test_a_byte_order_mark_is_no_matter() -> None:
    assert read(b"\xef\xbb\xbf" + ROW).compute_ms.tolist() == [[3.5]]


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        (b'{"step":1,"rank":0,"compute_ms":"3"}', "bad_value", "got `str` - at `$.compute_ms`"),
        (b'{"step":1,"rank":0,"compute_ms":NaN}', "bad_value", "NaN and Infinity are no"),
        (b'{"step":1,"rank":0}', "bad_value", "compute_ms has no value"),
        (b'{"step":1,"rank":0,"compute_ms":-1}', "sentinel_value", "compute_ms is -1"),
        (b'{"step":1,"rank":0,"compute_ms":1e400}', "bad_value", "out of range"),
        (b'{"step":1.5,"rank":0,"compute_ms":3}', "bad_value", "got `float` - at `$.step`"),
        (b'{"rank":0,"compute_ms":3}', "bad_value", "missing required field `step`"),
        (b'{"step":36893488147419103232,"rank":0,"compute_ms":3}', "bad_value", "too large"),
        (b'{"step":1,"rank":0,"compute_ms":3', "bad_value", "truncated"),
        (b"[1,0,3]", "bad_value", "Expected `object`, got `array`"),
        (b'{"step":1,"rank":0,"compute_ms":3,"x":\xff}', "bad_value", ""),
        (
            b'{"step":1,"rank":0,"compute_ms":3,"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
            "bad_value",
            "nested too deeply",
        ),
        (ROW.strip(), "duplicate_row", "rank 0 has step 0 twice, first in line 1"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(line: bytes, code: str, detail: str) -> None:
    found = fault(ROW + b"\n" + line + b"\n" + ROW.replace(b"0,", b"5,"))
    assert (found.code, found.line) == (code, 3)
    assert detail in found.detail


def test_labels_need_values() -> None:
    row = b'{"step":0,"rank":%d,"compute_ms":3,"node":%s,"stage":%s,"world_size":%s}\n'
    good = row % (0, b'"a"', b"0", b"4")
    assert fault(good + row % (1, b"null", b"0", b"4")).detail == "node has no value"
    assert fault(good + row % (1, b'"a"', b"null", b"4")).detail == "stage has no value"
    assert fault(good + row % (1, b'"a"', b"0", b"null")).detail == "world_size has no value"


def test_the_first_lines_tell_the_columns() -> None:
    assert fault(b"{no json}\n" + ROW).line == 1
    found = faults(b'{"step":0,"rank":0,"compute":3}\n' + ROW)[0]
    assert found.code == "unknown_column"


def rows_until(num_steps: int, more: bytes = b"") -> bytes:
    line = b'{"step":%d,"rank":0,"compute_ms":%d' + more + b"}\n"
    return b"".join(line % (step, 1 + step % 7) for step in range(num_steps))


def test_a_column_that_comes_late_is_read() -> None:
    """In the first block of text, and in a later one."""
    for num_steps in (1_500, 150_000):
        late = b'{"step":%d,"rank":0,"compute_ms":5,"communication_ms":%d,"mood":[1]}\n'
        timings = read(rows_until(num_steps) + late % (num_steps, 3) + late % (num_steps + 1, 4))
        assert timings.communication_ms is not None
        assert timings.communication_ms[-2:, 0].tolist() == [3, 4]
        assert np.isnan(timings.communication_ms[:-2]).all()
        assert timings.compute_ms[-3:, 0].tolist() == [1 + (num_steps - 1) % 7, 5, 5]
        assert timings.warnings[0].detail == "columns that are not read: 'mood'"


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (b'"comunication_ms":3', "unknown_column", "is communication_ms meant?"),
        (b'"load":3', "unknown_column", "a time needs its unit"),
        (b'"compute_s":3', "unknown_column", "compute is there in two units"),
        (b'"communication_ms":-1', "sentinel_value", "communication_ms is -1"),
        (b'"x":1,"step_ms":"a"', "bad_value", "got `str` - at `$.step_ms`"),
    ],
)
def test_so_its_name_and_its_values_are_checked(more: bytes, code: str, said: str) -> None:
    row = b'{"step":1500,"rank":0,"compute_ms":5,%s}\n' % more
    for after in (b"", rows_until(3).replace(b'"step":', b'"step":9999')):
        found = faults(rows_until(1_500) + row + after)[0]
        assert found.code == code
        assert said in found.detail
        assert found.line in {None, 1_501}


def test_a_name_that_is_never_met_before_a_broken_line_is_no_column() -> None:
    found = fault(rows_until(1_200) + b'{"step":1\n{"step":7000,"x":1}\n')
    assert (found.code, found.line) == ("bad_value", 1_201)


def test_blocks_end_anywhere() -> None:
    lines = [
        b'{"step":%d,"rank":0,"compute_ms":%d}\n' % (step, 1 + step % 7) for step in range(150_000)
    ]
    assert sum(map(len, lines)) > text_blocks.BLOCK_BYTES
    timings = read(b"".join(lines))
    assert timings.compute_ms[:, 0].tolist() == [1.0 + step % 7 for step in range(150_000)]
    found = fault(b"".join(lines) + b'{"step":0,"rank":0,"compute_ms":3}\n')
    assert (found.code, found.line) == ("duplicate_row", 150_001)


def test_a_block_without_text_is_passed_over() -> None:
    assert (
        read(ROW + b"\n" * (2 * text_blocks.BLOCK_BYTES) + ROW.replace(b"0,", b"1,")).num_steps == 2
    )


def test_an_enormous_line_is_refused() -> None:
    found = fault(ROW + b'{"x":"' + b"a" * 6_000_000 + b'"}\n')
    assert (found.code, found.line) == ("unreadable_file", None)
    assert "a line has over 1048576 bytes" in found.detail
