"""`make soak`: run the trials and write what happened to a committed table.

`python -m tests.soak [--only WORD,WORD] FILE`: only the trials whose name contains one of the
words; what FILE says of the others stays.
"""

import argparse
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tests.soak.load_trials import LOAD_TRIALS
from tests.soak.trials import NUM_POINTS, TRIALS

ALL_TRIALS = {**TRIALS, **LOAD_TRIALS}
TITLES = ("trial", "", "day", "duration", "what happened")
HEAD = f"""# Soak

Written by `make soak`: each trial breaks something while a batch of {NUM_POINTS:,} points or more
runs, and then checks every stored point; those under load check every acknowledged write as well.
The short forms of all of them, and `kill -9` at every named point, are in `make test`
(`tests/jobs/test_engine_*.py`, `tests/load`).
"""


def main(file: Path, wanted: Sequence[str] = ()) -> int:
    """Run the trials whose name contains one of the words (all without words)."""
    rows, failed = former_rows(file), 0
    log = Path(tempfile.mkstemp(prefix="trainard_soak_", suffix=".log")[1])
    print(f"logs: {log}", file=sys.stderr)
    for name, trial in ALL_TRIALS.items():
        if wanted and not any(word in name for word in wanted):
            continue
        start = time.monotonic()
        try:
            outcome, passed = trial(log), "passed"
        except Exception as error:  # noqa: BLE001 - the table says what went wrong
            traceback.print_exc()
            outcome, passed, failed = f"{type(error).__name__}: {error}"[:300], "FAILED", failed + 1
        took = f"{time.monotonic() - start:.0f} s"
        rows[name] = _line((name, passed, str(datetime.now(UTC).date()), took, outcome))
        print(rows[name], file=sys.stderr, flush=True)
        # After each: a later one may end this program.
        write(file, rows)
    return failed


def former_rows(file: Path) -> dict[str, str]:
    """The rows of the file by their trials, without those that are no trials any more."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line[:2] == "| "}
    return {name: rows[name] for name in ALL_TRIALS if name in rows}


def write(file: Path, rows: dict[str, str]) -> None:
    """The table in the order of the trials."""
    ordered = [rows[name] for name in ALL_TRIALS if name in rows]
    table = [_line(TITLES), _line(["---"] * len(TITLES)), *ordered]
    file.write_text(f"{HEAD}\n" + "\n".join(table) + f"\n\n{machine()}\n", encoding="utf-8")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("\n", " ")


def machine() -> str:
    """On what."""
    return (
        f"`make soak` on {psutil.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 1e9:.0f} GB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--only", default="", metavar="WORD,WORD")
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    sys.exit(main(given.file, [word for word in given.only.split(",") if word]))
