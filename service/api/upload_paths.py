"""Which requests bring files: their bodies are larger than others, are streamed and take longer."""

from typing import Final

CALIBRATIONS: Final = "/v1/calibrations"
FILE_AUDITS: Final = "/v1/overlap-audits/files"


def is_upload(method: str, path: str) -> bool:
    """Whether the body is streamed to disk, within limits of its own."""
    return method == "POST" and path.rstrip("/") in (CALIBRATIONS, FILE_AUDITS)
