"""Waiting for a run or a report, in a build that nobody watches: what is said, and when it ends."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
import rich_click as click

from service.cli import asking
from service.cli.asking import until
from service.cli.run_report import leaving
from service.cli.schedule_following import follow

RUNNING, ENDED = {"state": "running"}, {"state": "succeeded"}
GATEWAY = (502, "<html>Bad Gateway</html>")
Answer = tuple[int, Any]


class Service(httpx.BaseTransport):
    """Answers in the order given, the last of them for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/thing"
        code, found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, dict):
            return httpx.Response(code, json=found)
        return httpx.Response(code, text=found)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_SOON_EVERY_S", "_LATER_EVERY_S"):
        monkeypatch.setattr(asking, name, 0)


def has_ended(found: dict[str, Any]) -> bool:
    return bool(found["state"] != "running")


def describe(found: dict[str, Any]) -> str:
    return f"it is {found['state']}"


def of_report(client: httpx.Client) -> dict[str, Any]:
    return until(client, "/v1/thing", has_ended, describe)


def of_schedule(client: httpx.Client) -> dict[str, Any]:
    return follow(client, "/v1/thing", has_ended=has_ended, describe=describe, left="left")


waiting = pytest.mark.parametrize("wait", [of_report, of_schedule])
Wait = Callable[[httpx.Client], dict[str, Any]]


def waited(wait: Wait, *answers: Answer) -> dict[str, Any]:
    with httpx.Client(transport=Service(*answers), base_url="http://service") as client:
        return wait(client)


@waiting
def test_a_service_that_comes_back_is_waited_for(wait: Wait) -> None:
    """Also where a proxy, the database or the limit of requests speaks for it meanwhile."""
    busy = (429, {"title": "too many requests"})
    away = (503, {"title": "the database is away"})
    assert waited(wait, (200, RUNNING), GATEWAY, busy, away, (200, ENDED)) == ENDED


@waiting
@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_one_that_stays_away_ends_the_build(
    wait: Wait, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on for ever where a proxy answered for a service that was gone."""
    monkeypatch.setattr(asking, "GIVE_UP_S", 0)
    with pytest.raises(httpx.ReadError, match=f"it answered {code}"):
        waited(wait, (200, RUNNING), (code, "gone"))


@waiting
def test_what_waiting_does_not_help_ends_it_at_once(wait: Wait) -> None:
    with pytest.raises(click.ClickException, match="no longer there"):
        waited(wait, (200, RUNNING), (404, {"detail": "it is no longer there"}))


@waiting
def test_a_log_says_how_far_it_is(
    wait: Wait, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert waited(wait, (200, RUNNING), (200, ENDED)) == ENDED
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(asking, "TELL_EVERY_S", 0)
    assert waited(wait, (200, RUNNING), (200, RUNNING), (200, ENDED)) == ENDED
    assert capsys.readouterr().err == "it is running\nit is running\n"


def test_who_interrupts_is_told_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, leaving("It goes on."):
        raise KeyboardInterrupt
    assert ended.value.code == 130
    assert capsys.readouterr().err == "\nNo longer waiting. It goes on.\n"
