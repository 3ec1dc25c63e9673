"""Outputs of nccl-tests that come beside timings: kept as text, once they can be read."""

from collections.abc import Sequence
from typing import Final

from service.calibration.findings import FileFound
from service.calibration.reading.open_file import OpenFile
from service.calibration.refusals import refused
from service.model.exchange.nccl_lines import UnreadableOutputError
from service.model.exchange.nccl_tests import MAX_TEXT, read_nccl_tests

# Of a character in UTF-8; it is counted once more when the text is read.
_MOST_BYTES: Final = 4 * MAX_TEXT


def read_nccl_texts(files: Sequence[OpenFile]) -> tuple[str, tuple[FileFound, ...]]:
    """All texts, one after the other; raises TimingsRefusedError with the file and the line."""
    texts, found = [], []
    for file in files:
        file.stream.seek(0)
        text = file.stream.read(_MOST_BYTES).decode("utf-8", errors="replace")
        num_rows = _num_rows(text, file.name)
        texts.append(text)
        found.append(
            FileFound(
                name=file.name,
                format="nccl_tests",
                num_bytes=file.num_bytes,
                sha256=file.sha256,
                num_rows=num_rows,
            )
        )
    whole = "\n".join(texts)
    if len(files) > 1:
        _num_rows(whole, ", ".join(file.name for file in files))
    return whole, tuple(found)


def _num_rows(text: str, file: str) -> int:
    try:
        return read_nccl_tests(text, "out_of_place").num_rows
    except UnreadableOutputError as error:
        raise refused(
            "unreadable_file", f"output of nccl-tests: {error.reason}", file=file, line=error.line
        ) from None
