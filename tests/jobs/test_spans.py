import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from service.db.engine import Database
from service.jobs import batch_runs, deletions, sweeper
from service.jobs.engine import Engine
from service.jobs.spans import STOP_WITHIN_S, first_span, span, tracing
from tests.jobs.batch_bodies import ACTOR, cancel, item, run, speeds, submit
from tests.jobs.completed import complete
from tests.otlp_receiver import ReceivedSpan, Receiver, receiving

CONSUMER, INTERNAL = 5, 1


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def of_trace(receiver: Receiver, trace_id: UUID) -> list[ReceivedSpan]:
    return [span for span in receiver.spans() if span.trace_id == trace_id.hex]


def test_without_an_endpoint_everything_goes_on(sqlite_database: Database) -> None:
    with tracing("", role="embedded"):
        batch = run(sqlite_database, item())
    with span("nothing") as found:
        found.note({"a": 1})
        found.rename("x")
        found.fail()
    assert batch.state == "succeeded"


def test_a_batch_is_one_trace_with_its_id(receiver: Receiver, database: Database) -> None:
    with tracing(receiver.endpoint, role="worker"):
        batch = run(database, item(axes=[speeds(60_000)]))
    assert batch.state == "succeeded"
    found = of_trace(receiver, batch.id)
    chunks = [span for span in found if span.name == "chunk"]
    assert sorted((span.attributes["trainard.chunk"], span.parent_id) for span in chunks) == [
        (0, ""),
        (1, ""),
    ]
    assert [span.attributes["trainard.points"] for span in chunks] == [50_000, 10_000]
    assert {span.attributes["trainard.batch"] for span in chunks} == {str(batch.id)}
    assert {span.kind for span in chunks} == {CONSUMER}
    for chunk in chunks:
        parts = [span for span in found if span.parent_id == chunk.span_id]
        last = chunk.attributes["trainard.chunk"] == 1
        assert [part.name for part in sorted(parts, key=lambda part: part.name)] == (
            ["batch.finish"] * last + ["chunk.compute", "chunk.store"]
        )
        assert {part.kind for part in parts} == {INTERNAL}
        assert all(0 < part.duration_ms <= chunk.duration_ms for part in parts)
    (submitted,) = receiver.named("batch.submit")
    assert submitted.attributes == {"trainard.batch": str(batch.id), "trainard.points": 60_000}
    assert not any(span.failed for span in receiver.spans())
    assert chunks[0].resource["service.name"] == "trainard"
    assert chunks[0].resource["trainard.role"] == "worker"
    assert receiver.paths == {"/v1/traces"}


def test_the_end_of_a_canceled_batch_is_in_its_trace(
    receiver: Receiver, sqlite_database: Database
) -> None:
    batch = submit(sqlite_database, item())
    with sqlite_database.write() as connection:
        batch_runs.start(connection, batch.id, datetime.now(UTC))
    with tracing(receiver.endpoint, role="embedded"):
        cancel(sqlite_database, batch.id)
        sweeper.end_batches(Engine(sqlite_database))
    (found,) = of_trace(receiver, batch.id)
    assert (found.name, found.parent_id, found.failed) == ("batch.finish", "", False)


def test_a_task_is_a_trace_with_the_id_of_its_row(
    receiver: Receiver, sqlite_database: Database
) -> None:
    batch = run(sqlite_database, item())
    with sqlite_database.write() as connection:
        deletions.delete_batch(connection, ACTOR, batch.id, expected_version=batch.version)
    with tracing(receiver.endpoint, role="embedded"):
        complete(sqlite_database)
    (found,) = of_trace(receiver, batch.id)
    assert found.name == "task deletion"
    assert found.attributes == {"trainard.task": "deletion", "trainard.row": str(batch.id)}


def test_an_error_that_leaves_a_span_marks_it(receiver: Receiver) -> None:
    def fail() -> None:
        with first_span("outer", trace_id=uuid4()), span("inner"):
            raise ValueError("37 is too many")

    with tracing(receiver.endpoint, role="worker"):
        with pytest.raises(ValueError, match="37"):
            fail()
        with first_span("after", trace_id=uuid4()):
            pass
    assert {span.name: span.failed for span in receiver.spans()} == {
        "inner": True,
        "outer": True,
        "after": False,
    }


def test_traces_of_threads_do_not_mix(receiver: Receiver) -> None:
    ids = [uuid4() for _ in range(8)]

    def work(trace_id: UUID) -> None:
        with first_span("outer", trace_id=trace_id), span("inner"):
            time.sleep(0.01)

    with tracing(receiver.endpoint, role="worker"):
        threads = [threading.Thread(target=work, args=(trace_id,)) for trace_id in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for trace_id in ids:
        inner, outer = sorted(of_trace(receiver, trace_id), key=lambda span: span.name)
        assert (inner.name, outer.name) == ("inner", "outer")
        assert inner.parent_id == outer.span_id


@pytest.mark.parametrize("answers", [False, True], ids=["nobody", "silence"])
def test_a_collector_that_is_away_holds_nothing_up(answers: bool) -> None:  # noqa: FBT001
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if not answers:
            silent.close()
        started = time.monotonic()
        with tracing(f"http://127.0.0.1:{port}", role="worker"):
            for _ in range(100):
                with first_span("work", trace_id=uuid4()):
                    pass
            assert time.monotonic() - started < 1.5
        assert time.monotonic() - started < STOP_WITHIN_S + 2
