import gzip
import io
import re
import zlib

import pytest

from service.calibration.reading.compressed import Budget, GunzippedStream
from service.calibration.reading.limits import ReadingLimits
from service.calibration.refusals import TimingsRefusedError
from tests.calibration.reading.small_files import HEADER, csv, fault, parquet, read

ROWS = csv([(step, rank, 300 + rank) for step in range(400) for rank in range(4)])


def stream(content: bytes) -> GunzippedStream:
    return GunzippedStream(io.BytesIO(content), "run.csv.gz", Budget(ReadingLimits()))


def test_each_kind_of_table_may_be_compressed() -> None:
    columns = {"step": [0, 0], "rank": [0, 1], "compute_ms": [3.0, 4.0]}
    lines = b'{"step":0,"rank":0,"compute_ms":3}\n{"step":0,"rank":1,"compute_ms":4}\n'
    for content in (csv([(0, 0, 3), (0, 1, 4)]), lines, parquet(columns)):
        assert read(gzip.compress(content)).compute_ms.tolist() == [[3.0, 4.0]]


def test_members_one_after_the_other_are_one_file() -> None:
    content = gzip.compress(ROWS[:100]) + gzip.compress(ROWS[100:]) + bytes(70_000)
    assert read(content).num_steps == 400
    assert stream(gzip.compress(b"") + bytes(70_000) + gzip.compress(b"ab")).read() == b"ab"


def test_it_is_read_again_from_the_start_only() -> None:
    found = stream(gzip.compress(ROWS))
    assert found.read(10) == ROWS[:10]
    assert found.tell() == found.seek(0, io.SEEK_CUR) == 10
    assert found.seek(0) == 0
    assert found.read() == ROWS
    with pytest.raises(io.UnsupportedOperation):
        found.seek(5)
    with pytest.raises(io.UnsupportedOperation):
        found.seek(0, io.SEEK_END)
    assert found.readable()
    assert found.seekable()


def test_a_file_that_ends_early_is_refused_with_the_byte() -> None:
    whole = gzip.compress(ROWS)
    for length in (3, 11, 200, len(whole) - 9, len(whole) - 1):
        found = fault(whole[:length])
        assert found.code == "unreadable_file"
        assert found.detail == (
            f"gzip: it ends in the middle of the compressed data, at byte {length} of the file"
        )


def test_damage_is_refused() -> None:
    whole = bytearray(gzip.compress(ROWS))
    whole[-6] ^= 1
    assert "incorrect data check" in fault(bytes(whole)).detail
    assert "damaged" in fault(gzip.compress(ROWS) + b"more").detail


def test_a_bomb_is_refused_with_the_numbers() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = packer.compress(HEADER)
    for _ in range(32):
        bomb += packer.compress(bytes([10]) * 1_000_000)
    bomb += packer.flush()
    with pytest.raises(TimingsRefusedError, match="more than 200 times as many"):
        stream(bomb).read()
    found = fault(bomb)
    assert found.code == "file_too_large"
    assert re.match(
        r"[0-9]{5} bytes of gzip hold over 1[0-9]{7} bytes, more than 200", found.detail
    )


def test_all_files_share_what_decompressed_bytes_there_may_be() -> None:
    limits = ReadingLimits(decompressed_bytes=len(ROWS) + 20)
    assert read(gzip.compress(ROWS), limits=limits).num_steps == 400
    more = csv([(step, 0, 3) for step in range(400, 410)])
    found = fault(gzip.compress(ROWS), gzip.compress(more), limits=limits)
    assert (found.code, found.file) == ("file_too_large", "file1")
    assert found.detail.startswith(f"decompressed, the files have over {len(ROWS) + 20} bytes")


def test_gzip_within_gzip_is_refused() -> None:
    found = fault(gzip.compress(gzip.compress(ROWS)))
    assert found.code == "unknown_format"
    assert found.detail.startswith("it is gzip within gzip")
