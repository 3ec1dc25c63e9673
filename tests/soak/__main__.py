"""`make soak`: run the trials and write what happened to a committed table."""

import platform
import sys
import tempfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.soak.trials import NUM_POINTS, TRIALS

HEAD = f"""# Soak

Written by `make soak`: each trial breaks something while a batch of {NUM_POINTS:,} points runs, and
then checks every stored point. The short forms of all of them, and `kill -9` at every named point,
are in `make test` (`tests/jobs/test_engine_*.py`).
"""


def main(file: Path, *wanted: str) -> int:
    """Run the trials whose name contains one of the words (all without words)."""
    rows, failed = [], 0
    log = Path(tempfile.mkstemp(prefix="trainard_soak_", suffix=".log")[1])
    print(f"logs: {log}", file=sys.stderr)
    for name, trial in TRIALS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        start = time.monotonic()
        try:
            outcome, passed = trial(log), "passed"
        except Exception as error:  # noqa: BLE001 - the table says what went wrong
            traceback.print_exc()
            outcome, passed, failed = f"{type(error).__name__}: {error}"[:300], "FAILED", failed + 1
        row = f"| {name} | {passed} | {time.monotonic() - start:.0f} s | {outcome} |"
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    table = ["| trial | | duration | what happened |", "| --- | --- | --- | --- |", *rows]
    file.write_text(f"{HEAD}\n" + "\n".join(table) + f"\n\n{machine()}\n", encoding="utf-8")
    return failed


def machine() -> str:
    """What and when."""
    return (
        f"`make soak` on {datetime.now(UTC).date()}: {psutil.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 1e9:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}."
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
