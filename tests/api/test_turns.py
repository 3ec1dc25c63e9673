"""Turns of long work: one caller cannot keep the others waiting."""

import threading

import anyio
import anyio.to_thread
import pytest

from service.api.turns import AT_ONCE, Turns
from service.errors import OverLimitError


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
