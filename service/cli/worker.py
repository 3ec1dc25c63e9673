"""`trainard worker`: a process that computes batches of a PostgreSQL database."""

import os
import signal
import sys
import threading
import time
from types import FrameType

import rich_click as click

from service.api.logs import configure_logs
from service.cli.databases import database_option, settings_with, without_password
from service.db import migrate
from service.db.engine import Database, OperationalError
from service.jobs.engine import unique_name
from service.jobs.runtime import Runtime
from service.jobs.spans import tracing
from service.settings import Settings

WAIT_EVERY_S = 1.0
# More cores are used by more workers: each holds its chunks in memory until they are stored.
MAX_PROCESSES = 4


@click.command("worker")
@database_option
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    help="Compute processes. Default: TRAINARD_COMPUTE_PROCESSES, else one a core, at most "
    f"{MAX_PROCESSES}.",
)
@click.option("--end-with-parent", type=int, hidden=True, help="The process that started it.")
def command(
    *, database_url: str | None, processes: int | None, end_with_parent: int | None
) -> None:
    """Compute batches of a PostgreSQL database.

    Any number of workers, on any number of machines, share the work of one database. A worker
    waits for `trainard serve` or `trainard migrate` to make the tables, and starts anew when it
    has lost its connection:

        trainard worker --database-url postgresql://trainard@db.example/trainard

    SIGTERM or Ctrl-C: it finishes the chunks in hand and leaves the rest to others.
    """
    settings = settings_with(database_url)
    configure_logs(settings.log_level)
    database = Database(settings.database_url, session_name=unique_name())
    if database.is_sqlite:
        raise click.UsageError(
            "a SQLite file is computed by the process that serves it (trainard serve); "
            "workers need a PostgreSQL database"
        )
    stopping = _stop_on_signals()
    if end_with_parent is not None:
        watch = (end_with_parent, stopping)
        threading.Thread(target=_stop_with_parent, args=watch, daemon=True).start()
    if _wait_for_tables(database, settings, stopping):
        with tracing(settings.otlp_endpoint, role="worker"):
            _work(database, settings, processes, stopping)
    database.close()


def _work(
    database: Database,
    settings: Settings,
    processes: int | None,
    stopping: threading.Event,
) -> None:
    number = processes or settings.compute_processes or min(os.cpu_count() or 1, MAX_PROCESSES)
    runtime = Runtime(
        database,
        role="worker",
        processes=number,
        settings=settings,
        on_lock_lost=_start_anew,
    )
    try:
        runtime.start()
    except OperationalError:
        _start_anew()
    click.echo(
        f"Worker {runtime.engine.name} takes work from {without_password(settings.database_url)} "
        f"({number} processes)"
    )
    stopping.wait()
    runtime.stop()
    if runtime.is_busy:
        # A thread cannot be ended; all that it has in hand is taken over, as after a kill.
        os._exit(0)


def _stop_with_parent(parent: int, stopping: threading.Event) -> None:
    """Drain when the process that started this one is gone, as a killed `trainard serve`."""
    # Its number is handed over: it may be gone before this process can ask who it was.
    while os.getppid() == parent and not stopping.wait(WAIT_EVERY_S):
        pass
    stopping.set()


def _stop_on_signals() -> threading.Event:
    """The first signal asks for a drain, the second ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return stopping


def _wait_for_tables(database: Database, settings: Settings, stopping: threading.Event) -> bool:
    """Wait until the database is there and at the program's revision; False when told to stop."""
    said = ""
    while not stopping.is_set():
        try:
            with database.read() as connection:
                found = migrate.current_of(connection)
        except OperationalError as error:
            reason = str(error.orig).strip().partition("\n")[0]
        else:
            if found == migrate.head():
                return True
            reason = f"its tables are at {found or 'none'}, this program needs {migrate.head()}"
        if reason != said:
            click.echo(f"Waiting for {without_password(settings.database_url)}: {reason}", err=True)
            said = reason
        stopping.wait(WAIT_EVERY_S)
    return False


def _start_anew() -> None:
    """Replace this process by a new worker: nothing of the old one may go on without its lock."""
    time.sleep(WAIT_EVERY_S)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "service", *sys.argv[1:]])  # noqa: S606 - itself
