"""`kill -9` of the real program at every step of a night: one run, one batch, one message.

Between "due" and "ran", and between "ran" and "delivered": whatever was committed is gone on with,
whatever was not is done once more, and the receiver gets the same message with the same id again.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest
from sqlalchemy import func, select, update

from service.db.engine import Database
from service.db.schedule_tables import delivery, report, schedule_run
from service.db.tables import audit_event, scenario_batch
from service.jobs.actors import Actor
from service.jobs.audit_checks import check
from service.jobs.webhook_documents import EndpointIn
from service.jobs.webhook_endpoints import create_endpoint
from service.settings import Deliveries, Settings
from tests.cli.conftest import TIMEOUT_S, environment
from tests.cli.killed_program import POINTS
from tests.jobs.ledger_bodies import add_schedule, ledger
from tests.jobs.receivers import LOOPBACK, Receiver, receiving

REPOSITORY = Path(__file__).parents[2]
SETTINGS = {"TRAINARD_WEBHOOK_EGRESS": LOOPBACK[0], "TRAINARD_COMPUTE_PROCESSES": "1"}
SERVE, WORKER = ("serve", "--port", "0"), ("worker",)
# On a server the same program code runs: those points where its transactions could differ.
POSTGRES_POINTS = [
    "the slot is written, not committed",
    "the batch is stored, not committed",
    "begun",
    "the report is written, not committed",
    "sent, not recorded",
]
# Of all that is committed when the process is killed at the point: runs, batches, reports, messages
LEFT = {
    "the slot is written, not committed": ([], 0, 0, 0),
    "due": (["due"], 0, 0, 0),
    "the batch is stored, not committed": (["due"], 0, 0, 0),
    "begun": (["running"], 1, 0, 0),
    "the report is asked for, not committed": (["running"], 1, 0, 0),
    "handed over": (["reporting"], 1, 1, 0),
    "the report is written, not committed": (["reporting"], 1, 1, 0),
    "ran": (["succeeded"], 1, 1, 1),
    "sent, not recorded": (["succeeded"], 1, 1, 1),
}


@contextmanager
def running(
    url: str, folder: Path, *module: str, command: tuple[str, ...] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """The program over the database: the service of a file, or a worker of a server."""
    if command is None:
        command = SERVE if url.startswith("sqlite") else WORKER
    with (folder / "program.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", *module, *command],
            cwd=REPOSITORY,
            env={**environment(), **SETTINGS, "TRAINARD_DATABASE_URL": url},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        family = [process, *_children(process)]
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=TIMEOUT_S)
        _, alive = psutil.wait_procs(family[1:], timeout=TIMEOUT_S)
        assert alive == []


def _children(process: "subprocess.Popen[bytes]") -> list[Any]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def killed_at(url: str, folder: Path, point: str) -> None:
    with running(url, folder, "tests.cli.killed_program", point) as process:
        code = process.wait(timeout=TIMEOUT_S)
    assert code == -signal.SIGKILL, (point, (folder / "program.log").read_text()[-4_000:])


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def left(database: Database, added: UUID) -> tuple[list[str], int, int, int]:
    """What is stored: the states of the runs, and how many batches, reports and messages."""
    with database.read() as connection:
        batches, reports, messages = (
            connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (scenario_batch, report, delivery)
        )
    return [run.state for run in ledger(database, added)], batches, reports, messages


def prepare(database: Database, receiver: Receiver) -> UUID:
    """A schedule whose only slot of the last year nobody has seen, and whom it tells."""
    now = datetime.now(UTC)
    settings = Settings(deliveries=Deliveries(egress=LOOPBACK))
    with database.write() as connection:
        document = EndpointIn(name="receiver", url=receiver.url())
        endpoint = create_endpoint(connection, Actor(), document, settings, now=now)
    return add_schedule(
        database,
        now - timedelta(days=365),
        # Two days away from now, so that it does not come twice in a year
        cron=f"0 0 {(now - timedelta(days=2)).day} {(now - timedelta(days=2)).month} *",
        zone="UTC",
        deliveries=[{"kind": "webhook", "endpoint_id": str(endpoint.id)}],
        report={"remedies": False},
    )


def free_claims(database: Database) -> None:
    """As if the lease of who was killed had run out."""
    with database.write() as connection:
        connection.execute(
            update(delivery).values(
                claimed_until=datetime(2020, 1, 1, tzinfo=UTC),
                next_attempt_at=datetime(2020, 1, 1, tzinfo=UTC),
            )
        )


def message_state(database: Database) -> str | None:
    with database.read() as connection:
        return connection.scalar(select(delivery.c.state))


def test_killed_at_every_step_of_a_night(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    with receiving() as receiver:
        added = prepare(database, receiver)
        for point in POINTS if database.is_sqlite else POSTGRES_POINTS:
            killed_at(database_url, tmp_path, point)
            assert left(database, added) == LEFT[point], point
        assert len(receiver.received) == 1
        free_claims(database)
        with running(database_url, tmp_path, "service"):
            wait_for(lambda: message_state(database) == "delivered")
    assert left(database, added) == (["succeeded"], 1, 1, 1)
    (run,) = ledger(database, added)
    with database.read() as connection:
        batch = connection.execute(select(scenario_batch)).one()
        made = connection.execute(select(report)).one()
        told = connection.execute(select(delivery)).one()
        submitted = connection.scalars(
            select(audit_event.c.subject).where(audit_event.c.action == "submit_batch")
        ).all()
    assert (run.batch_id, run.report_id, run.attempt) == (batch.id, made.id, 1)
    assert batch.metadata["run"] == str(run.id)
    assert (batch.state, batch.points_done, made.state) == ("succeeded", 1, "succeeded")
    # Whoever was killed before the commit has left no event either.
    assert submitted == [f"scenario-batch/{batch.id}"]
    assert [found.findings for found in check(database)] == [[]]
    first, again = receiver.received
    assert (first.headers["webhook-id"], first.body) == (again.headers["webhook-id"], again.body)
    assert first.headers["webhook-id"] == told.message_id
    assert (told.run_id, told.dedup_key) == (run.id, f"{run.id}:1:0")


@pytest.mark.postgres
def test_two_services_on_one_database_run_each_slot_once(postgres_url: str, tmp_path: Path) -> None:
    database = Database(postgres_url)
    now = datetime.now(UTC)
    added = [
        add_schedule(
            database,
            now - timedelta(days=3),
            slug=f"nightly-{number}",
            cron=f"{number} 2 * * *",
            zone="UTC",
            misfire_policy="run_all",
            report={"remedies": False},
        )
        for number in range(4)
    ]
    # The service itself computes nothing here, but looks after the slots as the worker does.
    serve = running(postgres_url, tmp_path, "service", command=(*SERVE, "--workers", "0"))
    with serve, running(postgres_url, tmp_path, "service"):
        wait_for(lambda: all(_is_done(database, one) for one in added))
    with database.read() as connection:
        counted = connection.execute(
            select(
                func.count(),
                func.count(schedule_run.c.batch_id.distinct()),
                func.count(schedule_run.c.report_id.distinct()),
            )
        ).one()
        batches = connection.scalar(select(func.count()).select_from(scenario_batch))
    database.close()
    assert tuple(counted) == (12, 12, 12)
    assert batches == 12


def _is_done(database: Database, schedule_id: UUID) -> bool:
    states = [run.state for run in ledger(database, schedule_id)]
    return states == ["succeeded"] * 3
