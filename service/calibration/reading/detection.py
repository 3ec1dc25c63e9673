"""What a file is, by its first bytes; its name tells nothing."""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from service.calibration.reading.columns import LABELS, PHASES, shown
from service.calibration.reading.compressed import GZIP_MAGIC
from service.calibration.reading.open_file import OpenFile
from service.calibration.refusals import refused

Kind = Literal["csv", "jsonl", "parquet", "json", "nccl_tests"]
HEAD_BYTES: Final = 65_536
PARQUET_MAGIC: Final = b"PAR1"

_READ: Final = (
    "plain tables (CSV, JSON Lines or Parquet with the columns step, rank, compute_ms), Parquet of "
    "single operations (step, rank, optype, duration), traces of the PyTorch profiler (JSON), and "
    "the output of nccl-tests; each may be compressed by gzip"
)
_OTHERS: Final = (
    (GZIP_MAGIC, "gzip within gzip"),
    (b"PK\x03\x04", "a ZIP archive, or a spreadsheet"),
    (b"\x28\xb5\x2f\xfd", "compressed by Zstandard"),
    (b"BZh", "compressed by bzip2"),
    (b"\xfd7zXZ\x00", "compressed by xz"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\x04\x22\x4d\x18", "compressed by LZ4"),
    (b"\xd0\xcf\x11\xe0", "an old spreadsheet"),
    (b"SQLite format 3\x00", "a SQLite database, such as Nsight Systems writes: export a table"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"ARROW1", "an Arrow file: write Parquet"),
    (b"ORC", "ORC: write Parquet"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
    (b"\x80\x04", "a Python pickle, which is never opened"),
    (b"%PDF", "a PDF"),
)
_BOM: Final = b"\xef\xbb\xbf"
_TRACE_KEYS: Final = (
    b'"traceEvents"',
    b'"schemaVersion"',
    b'"deviceProperties"',
    b'"distributedInfo"',
    b'"displayTimeUnit"',
    b'"otherData"',
)
_NCCL_WORDS: Final = ((b"algbw", b"busbw"), (b"# nThread",), (b"nccl-tests version",))
# Of the first line of a table, whatever separates it.
_TABLE_WORDS: Final = (b"step", b"rank", *(word.encode() for word in (*PHASES, *LABELS)))


class KnownFile(Struct, frozen=True, kw_only=True):
    """A file, its stream decompressed, and what it is."""

    file: OpenFile
    kind: Kind


def kind_of(head: bytes, file: str) -> Kind:
    """The kind of a decompressed file from its first bytes, up to HEAD_BYTES.

    Raises TimingsRefusedError that names what is read.
    """
    if head.startswith(PARQUET_MAGIC):
        return "parquet"
    for magic, name in _OTHERS:
        if head.startswith(magic):
            raise refused("unknown_format", f"it is {name}; read are {_READ}", file=file)
    if not head.removeprefix(_BOM).strip():
        what = "it holds no text" if head else "it is empty"
        raise refused("unreadable_file", what, file=file)
    if b"\0" in head:
        raise refused(
            "unknown_format", f"it is binary, of no known kind; read are {_READ}", file=file
        )
    text = head.removeprefix(_BOM).lstrip()
    if text[:1] in {b"{", b"["}:
        return _of_json(text)
    if any(all(word in head for word in words) for words in _NCCL_WORDS):
        return "nccl_tests"
    line = text.partition(b"\n")[0]
    if b"," in line or any(word in line.lower() for word in _TABLE_WORDS):
        return "csv"
    start = shown(line.decode("utf-8", "replace"))
    raise refused("unknown_format", f"it starts with {start}; read are {_READ}", file=file)


def _of_json(text: bytes) -> Kind:
    """Rows are flat objects, one a line; a trace is one object or list over all lines."""
    line, _, rest = text.partition(b"\n")
    if text.startswith(b"[") or any(key in line for key in _TRACE_KEYS):
        return "json"
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        is_row = bool(rest) and not any(key in text for key in _TRACE_KEYS) and len(line) > 2
        return "jsonl" if is_row else "json"
    return "jsonl"
