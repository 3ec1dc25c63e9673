"""`trainard`, which kills itself (SIGKILL) at a named point of a scheduled run.

`python -m tests.cli.killed_program POINT COMMAND …`; the rest is the real program.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from service.cli import main
from service.db import schedules
from service.jobs import courier, report_making, run_ends, run_handover, run_starts, scheduler

# Where each point lies: the module, its name, and whether the call itself is still made.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "the slot is written, not committed": (schedules, "set_next", True),
    "due": (scheduler, "tick", True),
    "the batch is stored, not committed": (run_starts, "_start", True),
    "begun": (run_starts, "_carry_out", True),
    "the report is asked for, not committed": (run_handover, "_ask_for_report", True),
    "handed over": (scheduler, "hand_over", True),
    "the report is written, not committed": (run_ends, "end_with_report", True),
    "ran": (report_making, "finish", True),
    "sent, not recorded": (courier, "record", False),
}


def kill_at(point: str) -> None:
    """Have the process killed when something was done at the point for the first time."""
    owner, name, call = POINTS[point]
    replaced: Callable[..., Any] = getattr(owner, name)

    def killing(*arguments: Any, **named: Any) -> Any:
        # The scheduler looks once a second, mostly at nothing.
        if call and not (done := replaced(*arguments, **named)) and done is not None:
            return done
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(owner, name, killing)


# Compute processes are spawned: each imports this module again, and must not start the program.
if __name__ == "__main__":
    kill_at(sys.argv.pop(1))
    main()
