"""The steps of the workflows: interrupted, fenced, patient."""

import threading
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from service.db.engine import Connection, Database, OperationalError
from service.jobs.compute_pool import ComputePool
from service.jobs.task import Task
from service.jobs.tasks import TASKS
from service.jobs.workflows import HandedOverError, Workflows

NAME = "planted"


def task_of(run: Callable[[Database, UUID], None], failures: list[str]) -> Task:
    return Task(
        name=NAME,
        run=run,
        fail=lambda connection, row_id, reason: failures.append(reason),  # noqa: ARG005
        unsent=lambda connection, version: [],  # noqa: ARG005
        mark_sent=lambda connection, rows, version: None,  # noqa: ARG005
    )


def workflows_of(
    database: Database, transact: Callable[[Callable[[Connection], None]], None]
) -> Workflows:
    return Workflows(database, ComputePool(1), "test", transact)


def plain(database: Database) -> Callable[[Callable[[Connection], None]], None]:
    def transact(write: Callable[[Connection], None]) -> None:
        with database.write() as connection:
            write(connection)

    return transact


def test_a_task_is_interrupted_between_two_of_its_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of gigabytes must not keep a process from ending."""
    failures: list[str] = []
    begun = threading.Event()
    ended: list[BaseException] = []

    def endless(given: Database, _row: UUID) -> None:
        while True:
            with given.read():
                begun.set()
            with given.write():
                pass

    monkeypatch.setitem(TASKS, NAME, task_of(endless, failures))
    workflows = workflows_of(database, plain(database))

    def run() -> None:
        try:
            workflows.run_task(NAME, uuid4())
        except HandedOverError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(10)
    assert workflows.active
    workflows.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert len(ended) == 1
    assert failures == []
    assert workflows.active == set()


def test_a_task_fails_in_the_transaction_that_the_engine_fences(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[str] = []

    def defective(_database: Database, _row: UUID) -> None:
        raise OperationalError("SELECT secret", None, Exception("gone\nlink"))

    monkeypatch.setattr("service.jobs.workflows.TASK_PATIENCE_S", -1.0)
    monkeypatch.setitem(TASKS, NAME, task_of(defective, failures))

    def fenced(_write: Callable[[Connection], None]) -> None:
        raise LookupError("another process has taken it over")

    with pytest.raises(LookupError):
        workflows_of(database, fenced).run_task(NAME, uuid4())
    assert failures == []
    workflows_of(database, plain(database)).run_task(NAME, uuid4())
    assert failures == ["OperationalError: gone"]


def test_that_all_connections_are_in_use_is_waited_out(sqlite_database: Database) -> None:
    """It is no defect: whoever holds them gives them back, or is cut off."""
    pool = sqlite_database.engine.pool
    held = [sqlite_database.engine.connect() for _ in range(50)]
    pool._timeout = 0.05  # type: ignore[attr-defined]
    with (
        pytest.raises(OperationalError, match="all connections are in use"),
        sqlite_database.read(),
    ):
        pass
    workflows = workflows_of(sqlite_database, plain(sqlite_database))

    def give_back() -> None:
        for connection in held:
            connection.close()

    threading.Timer(0.5, give_back).start()

    def act() -> str:
        with sqlite_database.read():
            return "done"

    assert workflows._patiently(act) == "done"
