"""Which requests bring files: their bodies are larger than others, are streamed and take longer."""

from typing import Final

CALIBRATIONS: Final = "/v1/calibrations"


def is_upload(method: str, path: str) -> bool:
    """Whether the body is streamed to disk, within limits of its own."""
    return method == "POST" and path.rstrip("/") == CALIBRATIONS
