"""Services under load that are killed and started again, and what holds after each kill."""

import asyncio
import random
import socket
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Self

from service.db.engine import Database
from service.jobs import audit_checks
from tests.load.loads import Disturb, Load, keys_for
from tests.load.stored import assert_stored
from tests.load.tally import Tally
from tests.soak.services import Program


class Rig:
    """The programs of one database; ended with the block. On PostgreSQL a worker is one of them."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self._log = url, log
        self.database = Database(url)
        port = _free_port()
        self.address = f"http://127.0.0.1:{port}"
        serve = ("serve", "--port", str(port))
        self._commands: list[tuple[str, ...]] = (
            [serve] if self.database.is_sqlite else [(*serve, "--workers", "0"), ("worker",)]
        )
        self._programs: list[Program] = []
        # How often each kind was
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._programs = [Program(self.url, *command, log=self._log) for command in self._commands]
        self._programs[0].address()
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
        self.database.close()

    @property
    def num_programs(self) -> int:
        return len(self._commands)

    def load(self, num_clients: int) -> Load:
        """Of so many clients, each with a key of its own."""
        keys = keys_for(self.database, num_clients)
        return Load(addresses=[self.address], num_clients=num_clients, keys=keys)

    def kill(self, number: int) -> None:
        """SIGKILL to a program and all that it has started; a SQLite file is whole after it."""
        self._programs[number].kill()
        self.killed[self._commands[number][0]] += 1
        if self.database.is_sqlite:
            assert_whole_file(Path(str(self.database.url.database)))

    def start(self, number: int) -> None:
        """Start it again; the service answers when this returns."""
        self._programs[number] = Program(self.url, *self._commands[number], log=self._log)
        if number == 0:
            self._programs[0].address()

    def killing(self, kills: int, rng: random.Random, longest_s: float) -> Disturb:
        """Kill programs at random moments, and start them again."""

        async def disturb(_tally: Tally) -> None:
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(0.1, longest_s))
                number = rng.randrange(self.num_programs)
                await asyncio.to_thread(self.kill, number)
                await asyncio.to_thread(self.start, number)
            await asyncio.sleep(1)

        return disturb


def assert_whole_file(file: Path) -> None:
    """The database opens clean, whatever was being written."""
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def assert_nothing_lost(load: Load, database: Database) -> None:
    """No error but those that were expected, every acknowledged write once, the same answers."""
    tally = load.tally
    assert tally.unexpected == [], tally.unexpected[:5]
    assert tally.num_server_errors == 0, tally.statuses
    assert_stored(database, tally)
    assert load.repeat_all() == len(tally.keyed)
    assert_stored(database, tally)
    for checked in audit_checks.check(database):
        assert (checked.num_events > 0, checked.findings) == (True, [])


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port
