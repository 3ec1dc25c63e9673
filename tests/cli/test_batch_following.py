"""Following a batch past whatever breaks: streams that end, are refused or fall silent."""

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import rich_click as click

from service.cli import batch_following
from service.cli.batch_following import follow

ID = "01a228d5-8419-71c9-b360-7d854e38e1c4"
Answer = httpx.Response | Exception


def state(version: int, name: str = "running", done: int = 0) -> dict[str, Any]:
    return {"id": ID, "version": version, "state": name, "points_done": done}


QUEUED, HALF, DONE = state(1, "queued"), state(2, done=5), state(3, "succeeded", 10)


class Stream(httpx.SyncByteStream):
    """The events of the states, and then the break, where there is one."""

    def __init__(self, states: list[dict[str, Any]], error: Exception | None = None) -> None:
        self.states = states
        self.error = error

    def __iter__(self) -> Iterator[bytes]:
        yield b": nothing new\n\n"
        for found in self.states:
            yield b"id: %d\nevent: progress\ndata: %s\n\n" % (
                found["version"],
                msgspec.json.encode(found),
            )
        if self.error:
            raise self.error


class Service(httpx.BaseTransport):
    """Answers in the order given, and keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix(f"/v1/scenario-batches/{ID}")
        self.asked.append((path, request.headers.get("last-event-id")))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def events(*states: dict[str, Any], error: Exception | None = None) -> httpx.Response:
    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    return httpx.Response(200, headers=headers, stream=Stream(list(states), error))


def document(found: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json=found)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECONNECT_S", "ASK_EVERY_S"):
        monkeypatch.setattr(batch_following, name, 0)


def followed(*answers: Answer) -> tuple[list[tuple[str, str | None]], list[int]]:
    """What was asked (path, Last-Event-ID) and the versions that were shown, until the end."""
    service = Service(*answers)
    seen: list[int] = []
    with httpx.Client(transport=service, base_url="http://service") as client:
        ended = follow(client, QUEUED, lambda batch: seen.append(batch["version"]))
    assert ended == DONE
    assert service.answers == []
    return service.asked, seen


def test_one_stream_tells_everything() -> None:
    asked, seen = followed(events(HALF, DONE))
    assert asked == [("/events", "1")]
    assert seen == [1, 2, 3]


def test_a_broken_stream_is_taken_up_after_the_last_event() -> None:
    broken = httpx.RemoteProtocolError("peer closed connection")
    asked, seen = followed(events(HALF, error=broken), events(DONE))
    assert asked == [("/events", "1"), ("/events", "2")]
    assert seen == [1, 2, 3]


def test_a_service_that_restarts_is_waited_for() -> None:
    away = httpx.ConnectError("refused")
    asked, _ = followed(events(HALF), away, away, events(DONE))
    assert asked == [("/events", "1"), ("", None), ("/events", "2"), ("/events", "2")]


def test_a_stream_that_ends_early_is_opened_again() -> None:
    asked, seen = followed(events(), document(HALF), events(DONE))
    assert asked == [("/events", "1"), ("", None), ("/events", "2")]
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    "refusal",
    [
        httpx.Response(503, json={"detail": "500 event streams are open"}),
        httpx.Response(200, headers={"Content-Type": "text/html"}, content=b"<html>"),
        httpx.ReadTimeout("silent"),
    ],
)
def test_without_a_stream_it_asks_now_and_then(refusal: Answer) -> None:
    asked, seen = followed(refusal, document(QUEUED), document(HALF), document(DONE))
    assert [path for path, _ in asked] == ["/events", "", "", ""]
    assert seen == [1, 2, 3]


def test_what_was_heard_of_already_ends_at_once() -> None:
    asked, _ = followed(httpx.Response(204), document(DONE))
    assert [path for path, _ in asked] == ["/events", ""]


def test_a_faulty_proxy_is_passed_over() -> None:
    followed(httpx.Response(502), httpx.Response(502), document(DONE))


def test_a_service_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_following, "GIVE_UP_S", -1)
    with pytest.raises(httpx.ConnectError):
        followed(httpx.ConnectError("refused"))


def test_a_batch_that_was_deleted_is_said_so() -> None:
    with pytest.raises(click.ClickException, match="deleted"):
        followed(httpx.Response(404), httpx.Response(404))
