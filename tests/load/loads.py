"""A load on a service: clients with keys of all roles, and a large batch beside them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from service.db.engine import Database
from tests.api.access_keys import key_of
from tests.load.clients import BATCHES, ENDED, Client, role_of
from tests.load.tally import Tally
from tests.raw_http import Connection

Disturb = Callable[[Tally], Awaitable[None]]


@dataclass(kw_only=True)
class Load:
    """`num_clients` at the addresses in turn; without keys where `keys` is empty."""

    addresses: Sequence[str]
    num_clients: int
    keys: Sequence[dict[str, str]] = ()
    tally: Tally = field(default_factory=Tally)
    large_batch: str | None = None
    for_s: float = 0.0

    def run(self, *, num_points: int, disturb: Disturb) -> None:
        """Post a batch of so many points, load the service while `disturb` goes on, and end."""
        uvloop.run(self._run(num_points, disturb))

    async def _run(self, num_points: int, disturb: Disturb) -> None:
        admin = self.connection(3)
        small = await ended_batch(admin, grid(1_000))
        answer = await admin.ask("POST", BATCHES, grid(num_points))
        assert answer.status == 202, answer
        self.large_batch = answer.json()["id"]
        stopping = asyncio.Event()
        clients = [
            Client(k, self.connection(k), self.tally, [small]) for k in range(self.num_clients)
        ]
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(stopping))
            await disturb(self.tally)
            self.for_s = time.perf_counter() - start
            stopping.set()
        admin.close()

    def connection(self, number: int) -> Connection:
        """That of a client."""
        headers = self.keys[number] if self.keys else None
        return Connection(self.addresses[number % len(self.addresses)], headers)

    def repeat_all(self) -> int:
        """Send every acknowledged write that has a key again: the same answers; how many."""
        return uvloop.run(self._repeat_all())

    async def _repeat_all(self) -> int:
        by_client: dict[int, list[Any]] = {}
        for keyed in self.tally.keyed:
            by_client.setdefault(keyed.client, []).append(keyed)

        async def repeat(number: int, sent: list[Any]) -> None:
            async with self.connection(number) as connection:
                for one in sent:
                    headers = {"Idempotency-Key": one.key}
                    answer = await connection.ask("POST", one.path, one.body, headers)
                    found = (answer.status, answer.body)
                    assert found == (one.status, one.answer), (one, answer)
                    assert answer.headers["idempotent-replayed"] == "true", one

        await asyncio.gather(*(repeat(number, sent) for number, sent in by_client.items()))
        return len(self.tally.keyed)

    def wait_for_large_batch(self, seconds: float = 900) -> dict[str, Any]:
        """Ask until it has ended; the batch."""

        async def wait() -> dict[str, Any]:
            async with self.connection(3) as connection:
                return await batch_end(connection, str(self.large_batch), seconds)

        return uvloop.run(wait())


def keys_for(database: Database, num_clients: int) -> list[dict[str, str]]:
    """A key of its own for each client, its role in turn."""
    return [key_of(database, role_of(number), recorded=True) for number in range(num_clients)]


def lasting(seconds: float) -> Disturb:
    """Nothing but the load, for so long."""

    async def wait(_tally: Tally) -> None:
        await asyncio.sleep(seconds)

    return wait


def grid(num_points: int) -> dict[str, Any]:
    """A batch of one grid whose points cost something."""
    return {
        "name": "large",
        "reuse": False,
        "items": [
            {
                "custom_id": "grid",
                "scenario": {
                    "num_gpus": 1024,
                    "load_ms": 30,
                    "compute_ms": 300,
                    "communication": {"kind": "fixed", "allreduce_ms": 80},
                    "variability": {"transient": {"kind": "gamma", "cv": 0.05}},
                    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
                },
                "axes": [
                    {
                        "path": "slow_groups.0.speed_fraction",
                        "logspace": {"start": 0.5, "stop": 0.999, "num": num_points // 1000},
                    },
                    {
                        "path": "variability.transient.cv",
                        "logspace": {"start": 0.01, "stop": 0.3, "num": 1000},
                    },
                ],
            }
        ],
    }


async def ended_batch(connection: Connection, body: dict[str, Any]) -> str:
    """Post a batch and wait for its end; its id."""
    answer = await connection.ask("POST", BATCHES, body)
    assert answer.status == 202, answer
    batch_id: str = answer.json()["id"]
    ended = await batch_end(connection, batch_id, 60)
    assert ended["state"] == "succeeded", ended
    return batch_id


async def batch_end(connection: Connection, batch_id: str, seconds: float) -> dict[str, Any]:
    """Ask until the batch has ended; the batch."""
    give_up = time.monotonic() + seconds
    while True:
        batch: dict[str, Any] = (await connection.ask("GET", f"{BATCHES}/{batch_id}")).json()
        if batch["state"] in ENDED:
            return batch
        assert time.monotonic() < give_up, batch
        await asyncio.sleep(0.1)
