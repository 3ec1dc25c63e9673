"""Clients of all four roles that read and write as fast as they are answered.

A client sends a write that was not answered again, with the same key or version, until it is: as
a careful program does whose server was killed.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

from service.jobs.scopes import ROLES, Role
from tests.jobs.batch_bodies import SEED, item
from tests.load.tally import Keyed, Tally
from tests.raw_http import Answer, Connection

BATCHES: Final = "/v1/scenario-batches"
PROFILES: Final = "/v1/cluster-profiles"
RATES: Final = "/v1/gpu-hour-rates"
FIRST_DAY: Final = date(2001, 1, 1)
PAUSE_S: Final = 0.05
PATIENCE_S: Final = 60.0
ENDED: Final = ("succeeded", "partially_failed", "failed", "canceled", "expired")

# What each role does, and how often.
WEIGHTS: Final[dict[Role, dict[str, int]]] = {
    "viewer": {"read": 10, "evaluate": 2},
    "planner": {"read": 5, "create_profile": 2, "revise_profile": 2, "batch": 3},
    "finance": {"read": 4, "read_costs": 3, "create_rate": 3, "batch": 2},
    "admin": {
        "read": 4,
        "read_costs": 1,
        "create_profile": 1,
        "revise_profile": 1,
        "create_rate": 1,
        "batch": 2,
    },
}


def role_of(number: int) -> Role:
    """The role of each client in turn."""
    return ROLES[number % len(ROLES)]


class Client:
    """One of many; what it reads of others are the ended batches `read_batches`."""

    def __init__(
        self, number: int, connection: Connection, tally: Tally, read_batches: Sequence[str]
    ) -> None:
        self._number = number
        self._connection = connection
        self._tally = tally
        self._read_batches = read_batches
        self._rng = random.Random(number)
        self._num_made = 0
        self._profile: tuple[str, str] | None = None
        self._open_batch: str | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Act until told to stop; what was begun is brought to its answer."""
        weights = WEIGHTS[role_of(self._number)]
        while not stopping.is_set():
            (action,) = self._rng.choices(list(weights), list(weights.values()))
            await getattr(self, f"_{action}")()
        self._connection.close()

    async def _send(
        self, method: str, path: str, *more: Any, expect: tuple[int, ...] = (200,)
    ) -> Answer:
        kind = "read" if method == "GET" or path == "/v1/evaluations" else "write"
        give_up = time.monotonic() + PATIENCE_S
        while True:
            start = time.perf_counter()
            try:
                answer = await self._connection.ask(method, path, *more)
            except OSError:
                self._tally.broken += 1
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(PAUSE_S)
                continue
            self._tally.note(kind, time.perf_counter() - start, answer.status)
            if answer.status == 503 and time.monotonic() < give_up:
                await asyncio.sleep(PAUSE_S)
                continue
            if answer.status not in expect:
                said = answer.body[:300].decode(errors="replace")
                self._tally.unexpected.append(f"{method} {path}: {answer.status} {said}")
            return answer

    async def _create(self, path: str, body: dict[str, Any], status: int) -> Answer:
        key = f"load-{self._number}-{self._num_made}"
        answer = await self._send("POST", path, body, {"Idempotency-Key": key}, expect=(status,))
        if answer.status == status:
            found = Keyed(path, body, key, self._number, status, answer.body)
            self._tally.keyed.append(found)
        return answer

    def _new_name(self) -> str:
        self._num_made += 1
        return f"load-{self._number}-{self._num_made}"

    async def _create_profile(self) -> None:
        slug = self._new_name()
        body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SEED}
        answer = await self._create(PROFILES, body, 201)
        if answer.status == 201:
            self._tally.profiles[slug] = 1
            self._profile = (slug, answer.headers["etag"])

    async def _revise_profile(self) -> None:
        if self._profile is None:
            return
        slug, tag = self._profile
        name = self._new_name()
        body = {"name": name, "gpu_type": "H100", "defaults": SEED}
        broken = self._tally.broken
        answer = await self._send(
            "POST", f"{PROFILES}/{slug}/revisions", body, {"If-Match": tag}, expect=(201, 412)
        )
        if answer.status == 412:
            # Nobody else changes it: the first try was stored, and its answer lost.
            answer = await self._send("GET", f"{PROFILES}/{slug}")
            if self._tally.broken == broken or answer.json()["name"] != name:
                self._tally.unexpected.append(f"{slug}: 412 without a revision {name}")
                return
        self._tally.profiles[slug] += 1
        self._profile = (slug, answer.headers["etag"])

    async def _create_rate(self) -> None:
        self._num_made += 1
        day = FIRST_DAY + timedelta(days=self._num_made)
        gpu_type = f"load-{self._number}"
        body = {
            "gpu_type": gpu_type,
            "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
            "valid_from": day.isoformat(),
            "valid_until": (day + timedelta(days=1)).isoformat(),
            "source": "load",
        }
        answer = await self._create(RATES, body, 201)
        if answer.status == 201:
            self._tally.rates.append((gpu_type, day.isoformat()))

    async def _batch(self) -> None:
        """Post a small batch, look whether it has ended or cancel it: one of a client at a time."""
        if self._open_batch is None:
            name = self._new_name()
            body = {"name": name, "reuse": False, "items": [item()]}
            answer = await self._create(BATCHES, body, 202)
            if answer.status == 202:
                self._open_batch = answer.json()["id"]
                self._tally.batches[self._open_batch] = name
            return
        path = f"{BATCHES}/{self._open_batch}"
        if self._rng.random() < 0.3:
            # It may have ended meanwhile.
            answer = await self._send("POST", f"{path}/cancellation", expect=(202, 409))
            if answer.status == 202:
                self._tally.cancellations.append(self._open_batch)
            self._open_batch = None
        elif (await self._send("GET", path)).json()["state"] in ENDED:
            self._open_batch = None

    async def _evaluate(self) -> None:
        await self._send("POST", "/v1/evaluations", {"scenario": SEED})

    async def _read(self) -> None:
        batch = self._rng.choice(self._read_batches)
        path = self._rng.choice(
            [
                "/v1/meta",
                f"{PROFILES}?page_size=20",
                f"{BATCHES}?page_size=20",
                f"{BATCHES}/{batch}",
                f"{BATCHES}/{batch}/results?page_size=20&order_by=-gpu_hours_lost",
                f"/v1/results/{batch}.0",
            ]
        )
        await self._send("GET", path)

    async def _read_costs(self) -> None:
        kinds = [
            f"{RATES}?page_size=20",
            f"{RATES}/resolution?gpu_type=none&on=2026-01-01&currency=EUR",
        ]
        await self._send("GET", self._rng.choice(kinds))
