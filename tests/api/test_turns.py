"""Turns of long work: one caller cannot keep the others waiting."""

import json
import threading
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from litestar import Litestar

from service.api.turns import AT_ONCE, ClientGone, Turns
from service.errors import OverLimitError

NORMAL = {"kind": "normal", "cv": 0.05}
SCENARIO: dict[str, Any] = {"num_gpus": 64, "compute_ms": 300}


class Work:
    """Blocking work that ends when it is told to."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> str:
        self.started.set()
        assert self.may_end.wait(20)
        return "done"


def test_one_caller_waits_for_itself_and_others_do_not() -> None:
    async def main() -> list[str]:
        turns, long, answers = Turns(), Work(), []

        async def ask(caller: str, name: str, work: Work | None = None) -> None:
            await turns.take(caller, work or (lambda: name))
            answers.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "a", "long", long)
            await anyio.to_thread.run_sync(long.started.wait)
            tasks.start_soon(ask, "a", "behind")
            await ask("b", "other")
            await ask("c", "another")
            long.may_end.set()
        return answers

    assert anyio.run(main) == ["other", "another", "long", "behind"]


def test_who_waits_too_long_is_told_to_come_again() -> None:
    async def main() -> None:
        turns = Turns(wait_s=0.05)
        running = [Work() for _ in range(AT_ONCE)]
        async with anyio.create_task_group() as tasks:
            for number, work in enumerate(running):
                tasks.start_soon(turns.take, f"caller {number}", work)
                await anyio.to_thread.run_sync(work.started.wait)
            for caller in ("caller 0", "one more"):
                with pytest.raises(OverLimitError, match="ask again later") as caught:
                    await turns.take(caller, lambda: "never")
                assert caught.value.retry_after_s == 1
            for work in running:
                work.may_end.set()
        assert await turns.take("one more", lambda: "now") == "now"

    anyio.run(main)


def test_what_takes_a_blink_does_not_wait_behind_what_takes_long() -> None:
    async def main() -> None:
        turns, long = Turns(), Work()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turns.take, "a", long)
            await anyio.to_thread.run_sync(long.started.wait)
            assert await turns.take("a", lambda: "picture", is_brief=True) == "picture"
            long.may_end.set()

    anyio.run(main)


@pytest.mark.parametrize("waits_for", ["itself", "everybody"])
def test_nothing_is_begun_for_who_has_gone(waits_for: str) -> None:
    """And the place that it had in the line is that of the next."""

    async def main() -> list[str]:
        turns, begun = Turns(), []
        callers = ["a"] if waits_for == "itself" else [f"caller {one}" for one in range(AT_ONCE)]
        running = [Work() for _ in callers]
        leaves = anyio.Event()

        async def go_away() -> None:
            with pytest.raises(ClientGone):
                await turns.take("a", lambda: begun.append("gone"), gone=leaves.wait)

        async def stay() -> None:
            await turns.take("a", lambda: begun.append("there"))

        async with anyio.create_task_group() as tasks:
            for caller, work in zip(callers, running, strict=True):
                tasks.start_soon(turns.take, caller, work)
                await anyio.to_thread.run_sync(work.started.wait)
            tasks.start_soon(go_away)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(stay)
            await anyio.wait_all_tasks_blocked()
            leaves.set()
            await anyio.wait_all_tasks_blocked()
            for work in running:
                work.may_end.set()
        return begun

    assert anyio.run(main) == ["there"]


def test_who_goes_while_his_work_is_done_hinders_nobody() -> None:
    async def main() -> None:
        turns, work = Turns(), Work()
        leaves = anyio.Event()
        answers = []

        async def ask() -> None:
            answers.append(await turns.take("a", work, gone=leaves.wait))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(work.started.wait)
            leaves.set()
            await anyio.lowlevel.checkpoint()
            work.may_end.set()
        assert answers == ["done"]
        assert await turns.take("a", lambda: "next") == "next"

    anyio.run(main)


def test_a_closed_connection_drops_what_waits(app: Litestar) -> None:
    """As the server tells it: the body, then that the client has gone; no answer is begun."""
    body = json.dumps({"scenario": {**SCENARIO, "variability": {"node": NORMAL}}}).encode()
    messages: list[Any] = [
        {"type": "http.request", "body": body, "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0) if messages else await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {
        "type": "http",
        "method": "POST",
        "path": "/v1/evaluations",
        "raw_path": b"/v1/evaluations",
        "query_string": b"",
        "scheme": "http",
        "root_path": "",
        "http_version": "1.1",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "headers": [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
    }

    async def main() -> None:
        async with app.lifespan():
            turns, running = app.state.turns, [Work() for _ in range(AT_ONCE)]
            async with anyio.create_task_group() as tasks:
                for number, work in enumerate(running):
                    tasks.start_soon(turns.take, f"caller {number}", work)
                    await anyio.to_thread.run_sync(work.started.wait)
                with anyio.fail_after(10):
                    await app(scope, receive, send)
                for work in running:
                    work.may_end.set()

    anyio.run(main)
    assert (messages, sent) == ([], [])
