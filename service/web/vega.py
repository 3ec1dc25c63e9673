"""The chart library of the pages: Vega, Vega-Lite and Vega-Embed out of the installed vl-convert.

Bundling takes seconds and holds the interpreter (.github/decisions/0019-report-charts.md).
`python -m service.web.vega` does it when the program is installed (`make setup`, the image); where
that was not done, a process of its own does it as soon as the first page is asked for.
"""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Final

SECONDS: Final = 120.0
_PROGRAM: Final = (
    "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
)
_FOLDER: Final = Path(__file__).parent / "built"
_starting = Lock()
_begun: list[Future[bytes]] = []


@cache
def tag() -> str:
    """What changes with the library: part of the address."""
    return hashlib.sha256(f"{version('vl-convert-python')} {_PROGRAM}".encode()).hexdigest()[:16]


def begin() -> Future[bytes]:
    """Start bundling unless that was done; the script is the future's result.

    A failure is told to those who wait for it, and the next one tries anew.
    """
    with _starting:
        if not _begun or (_begun[0].done() and _begun[0].exception() is not None):
            pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vega-bundle")
            _begun[:] = [pool.submit(_bundled)]
            pool.shutdown(wait=False)
        return _begun[0]


def built() -> Path:
    """Where the script is kept that was made at installation."""
    return _FOLDER / f"vega-{tag()}.js"


def build() -> Path:
    """Make that file, whole or not at all, in the place of those of other versions."""
    _FOLDER.mkdir(exist_ok=True)
    script = _bundle()
    begun = _FOLDER / f".{os.getpid()}.part"
    begun.write_bytes(script)
    begun.replace(built())
    for old in _FOLDER.glob("vega-*.js"):
        if old != built():
            old.unlink(missing_ok=True)
    return built()


def _bundled() -> bytes:
    try:
        return built().read_bytes()
    except OSError:
        return _bundle()


def _bundle() -> bytes:
    done = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-P", "-c", _PROGRAM], capture_output=True, check=True, timeout=SECONDS
    )
    return done.stdout


if __name__ == "__main__":
    build()
