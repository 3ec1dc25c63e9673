import pytest

from service.calibration.reading.detection import kind_of
from service.calibration.refusals import TimingsRefusedError


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"step,rank,compute_ms\n", "csv"),
        (b"\xef\xbb\xbfstep;rank\n", "csv"),
        (b"a,b\n", "csv"),
        (b"Rank\n", "csv"),
        (b'{"step": 1, "rank": 0}\n{', "jsonl"),
        (b'\n {"step": 1, "rank": 0}', "jsonl"),
        (b'{"step": 1, "rank": NaN}\n{', "jsonl"),
        (b'{"traceEvents": []}', "json"),
        (b'{"schemaVersion": 1, "x": {"a": 1}}\n', "json"),
        (b'{\n  "schemaVersion": 1,\n', "json"),
        (b'{"any": [1,\n2,\n "traceEvents"', "json"),
        (b"[", "json"),
        (b'{"x": "' + b"a" * 70_000, "json"),
        (b"PAR1....", "parquet"),
        (b"# nThread 1 nGpus 8 minBytes 8\n", "nccl_tests"),
        (b"mpirun: hello\n#  size  count type redop root time algbw busbw #wrong", "nccl_tests"),
    ],
)
def test_the_content_tells_the_kind(head: bytes, kind: str) -> None:
    assert kind_of(head, "a.bin") == kind


@pytest.mark.parametrize(
    ("head", "code", "detail"),
    [
        (b"", "unreadable_file", "it is empty"),
        (b"\xef\xbb\xbf \n", "unreadable_file", "it holds no text"),
        (b"\x1f\x8b\x08", "unknown_format", "gzip within gzip"),
        (b"PK\x03\x04", "unknown_format", "a ZIP archive"),
        (b"\x28\xb5\x2f\xfd", "unknown_format", "Zstandard"),
        (b"SQLite format 3\x00", "unknown_format", "Nsight Systems"),
        (b"\xff\xfes\x00t\x00", "unknown_format", "UTF-16"),
        (b"\x80\x04\x95", "unknown_format", "pickle"),
        (b"\x93NUMPY", "unknown_format", "NumPy"),
        (b"ARROW1\0\0", "unknown_format", "write Parquet"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "unknown_format", "binary, of no known kind"),
        (b"hello world\n", "unknown_format", "it starts with 'hello world'; read are plain tables"),
        (b"\xc3\x28\xa0 junk \xff", "unknown_format", "it starts with"),
    ],
)
def test_anything_else_is_refused_naming_what_is_read(head: bytes, code: str, detail: str) -> None:
    with pytest.raises(TimingsRefusedError) as caught:
        kind_of(head, "a.bin")
    (fault,) = caught.value.faults
    assert (fault.code, fault.file) == (code, "a.bin")
    assert detail in fault.detail
    if code == "unknown_format":
        assert "the output of nccl-tests" in fault.detail
