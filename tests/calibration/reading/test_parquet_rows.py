import contextlib
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.calibration.refusals import TimingsRefusedError
from tests.calibration.reading.small_files import fault, parquet, read

COLUMNS: dict[str, Any] = {"step": [0, 0, 1, 1], "rank": [0, 1, 0, 1], "compute_ms": [3, 4, 5, 6.5]}


def test_rows_of_any_numeric_type() -> None:
    content = parquet(
        {
            "rank": pa.array([1, 0], pa.uint8()),
            "step": pa.array([3, 3], pa.int16()),
            "compute_s": pa.array([0.5, 0.25], pa.float32()),
            "step_ms": pa.array([600, None], pa.int32()),
            "node": pa.array(["x", "a"]).dictionary_encode(),
            "stage": pa.array([1, 0], pa.int8()).dictionary_encode(),
            "includes_wait": pa.array([False, False]),
            "world_size": pa.array([2, 2]),
            "junk": pa.array([[1], [2]]),
        }
    )
    timings = read(content)
    assert timings.compute_ms.tolist() == [[250.0, 500.0]]
    np.testing.assert_array_equal(timings.step_ms, [[np.nan, 600]])
    assert timings.nodes is not None
    assert timings.nodes.tolist() == [0, 1]
    assert timings.stages is not None
    assert timings.stages.tolist() == [0, 1]
    assert timings.includes_wait is False
    assert timings.world_size == 2
    assert timings.files[0].format == "parquet"
    assert timings.warnings[0].detail == "columns that are not read: 'junk'"


def test_numbers_of_nodes_keep_their_number() -> None:
    timings = read(parquet({**COLUMNS, "node": [5, 3, 5, 3]}))
    assert timings.nodes is not None
    assert timings.nodes.tolist() == [5, 3]


def test_several_row_groups_and_files() -> None:
    content = parquet(COLUMNS, row_group_size=1)
    more = {**COLUMNS, "step": [2, 2, 3, 3]}
    timings = read(content, parquet(more), b"step,rank,compute_ms\n4,0,1\n")
    assert timings.steps.tolist() == [0, 1, 2, 3, 4]
    assert [file.format for file in timings.files] == ["parquet", "parquet", "csv"]


@pytest.mark.parametrize(
    ("changed", "code", "detail"),
    [
        ({"compute_ms": [3, np.nan, 5, 6]}, "bad_value", "row 2: compute_ms is NaN"),
        ({"compute_ms": [3, 4, 5, None]}, "bad_value", "row 4: compute_ms has no value"),
        ({"rank": [0, None, 0, 1]}, "bad_value", "row 2: rank has no value"),
        ({"rank": [0, 1, 0, 0]}, "duplicate_row", "twice, first in row 3, then in row 4"),
        ({"rank": [0, 1, 0, 1.5]}, "bad_value", "the column rank: "),
        ({"compute_ms": ["3", "4", "5", "x"]}, "bad_value", "the column compute_ms: "),
        ({"compute_ms": [[3], [4], [5], [6]]}, "bad_value", "of type list<"),
        ({"compute_ms": pa.array([1, 2, 3, 4], pa.duration("ms"))}, "bad_value", "duration[ms]"),
        ({"node": pa.array([b"a", b"\xff", b"a", b"a"])}, "bad_value", "the column node: "),
        ({"compute": [1, 2, 3, 4]}, "unknown_column", "a time needs its unit"),
    ],
)
def test_a_bad_row_is_refused_with_its_number(
    changed: dict[str, Any], code: str, detail: str
) -> None:
    found = fault(parquet({**COLUMNS, **changed}))
    assert found.code == code
    assert detail in found.detail


def test_a_row_of_another_file_is_named() -> None:
    found = fault(parquet(COLUMNS), b"step,rank,compute_ms\n1,1,3\n")
    assert (found.line, found.file) == (2, "file1")
    assert found.detail == "rank 1 has step 1 twice, first in row 4 of file0"


def test_damaged_files_are_refused() -> None:
    content = parquet(COLUMNS)
    for broken in (
        content[:-20] + content[-8:],
        b"PAR1",
        content[: len(content) // 2],
        b"PAR1" + bytes(100) + content[104:],
        content[:-8] + b"\xff\xff\xff\x7fPAR1",
    ):
        assert fault(broken).code == "unreadable_file"


def test_metadata_that_lies_about_rows_is_refused() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), sink, compression="none", use_dictionary=False)
    content = sink.getvalue()
    rng = np.random.default_rng(3)
    footer = int.from_bytes(content[-8:-4], "little")
    for _ in range(200):
        broken = bytearray(content)
        for place in rng.integers(len(content) - footer - 8, len(content) - 8, 2):
            broken[place] = rng.integers(256)
        # Whatever it says, it ends in timings or in a refusal.
        with contextlib.suppress(TimingsRefusedError):
            read(bytes(broken))
