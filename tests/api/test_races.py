"""Requests that race each other for real: two serving processes, one database, raw sockets."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import audit_event, idempotency_key, scenario_batch
from tests.api.access_keys import key_of
from tests.conftest import BACKENDS, TEMPLATE, PostgresServer
from tests.jobs.batch_bodies import SEED, item
from tests.jobs.completed import complete
from tests.raw_http import Answer, Connection, at_once

ROOT = Path(__file__).parents[2]
READY = re.compile(r"ready at (http://\S+)")
POSTERS = 32
CHANGERS = 16
BATCHES = "/v1/scenario-batches"
PROFILES = "/v1/cluster-profiles"


class Served(NamedTuple):
    """Two processes that serve one database, and the header of an admin's key."""

    addresses: list[str]
    database: Database
    admin: dict[str, str]

    def connections(self, number: int) -> list[Connection]:
        """To the one and the other process in turn."""
        return [Connection(self.addresses[k % 2], self.admin) for k in range(number)]

    def race(self, requests: list[tuple[Any, ...]]) -> list[Answer]:
        async def run() -> list[Answer]:
            connections = self.connections(len(requests))
            try:
                # Each process has answered before: what it does only once is done.
                await at_once(connections, [("GET", "/v1/meta")] * len(requests))
                return await at_once(connections, requests)
            finally:
                for connection in connections:
                    connection.close()

        return asyncio.run(run())

    def ask(self, *request: Any) -> Answer:
        (answer,) = self.race([request])
        return answer

    def num_events(self, action: str) -> int:
        """Changes of the kind in the audit trail."""
        c = audit_event.c
        with self.database.read() as connection:
            query = select(func.count()).where(c.action == action, c.outcome == "done")
            return connection.scalar(query) or 0


@pytest.fixture(scope="module", params=BACKENDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("races")
    with ExitStack() as stack:
        if request.param == "sqlite":
            template: Path = request.getfixturevalue("sqlite_template")
            file = folder / "trainard.db"
            file.write_bytes(template.read_bytes())
            url = f"sqlite:///{file}"
        else:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            name = server.new_database(TEMPLATE)
            stack.callback(server.drop_database, name)
            url = server.url(name)
        log = stack.enter_context((folder / "service.log").open("w"))
        processes = [stack.enter_context(serving(url, log)) for _ in range(2)]
        addresses = [address_of(process) for process in processes]
        database = Database(url)
        stack.callback(database.close)
        yield Served(addresses, database, key_of(database, "admin"))
        for process in processes:
            process.terminate()


def serving(url: str, log: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "service", "serve", "--port", "0", "--workers", "0"],
        env={
            **os.environ,
            "TRAINARD_DATABASE_URL": url,
            # What is computed here is small: a second one would only take time to start.
            "TRAINARD_COMPUTE_PROCESSES": "1",
            "PYTHONPATH": str(ROOT),
        },
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


def address_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    found = READY.search(process.stdout.readline())
    assert found is not None
    return found[1]


def batch(name: str) -> dict[str, Any]:
    return {"name": name, "reuse": False, "items": [item()]}


def named(database: Database, pattern: str) -> list[str]:
    """Names of the batches that look like it."""
    with database.read() as connection:
        query = select(scenario_batch.c.name).where(scenario_batch.c.name.like(pattern))
        return list(connection.scalars(query))


def num_keys(database: Database, key: str) -> int:
    with database.read() as connection:
        query = select(func.count()).where(idempotency_key.c.key == key)
        return connection.scalar(query) or 0


def test_of_32_posts_with_one_key_one_makes_a_batch(served: Served) -> None:
    headers = {"Idempotency-Key": "one"}
    before = served.num_events("submit_batch")
    answers = served.race([("POST", BATCHES, batch("raced"), headers)] * POSTERS)
    assert Counter(answer.status for answer in answers) == {202: POSTERS}
    assert len({answer.body for answer in answers}) == 1
    assert len({answer.headers["location"] for answer in answers}) == 1
    replayed = Counter(answer.headers.get("idempotent-replayed") for answer in answers)
    assert replayed == {"true": POSTERS - 1, None: 1}
    assert named(served.database, "raced") == ["raced"]
    assert num_keys(served.database, "one") == 1
    made = UUID(answers[0].json()["id"])
    assert answers[0].headers["location"] == f"{BATCHES}/{made}"
    assert served.num_events("submit_batch") == before + 1


def test_of_32_bodies_with_one_key_one_wins(served: Served) -> None:
    headers = {"Idempotency-Key": "many"}
    answers = served.race([("POST", BATCHES, batch(f"body-{k}"), headers) for k in range(POSTERS)])
    assert Counter(answer.status for answer in answers) == {202: 1, 422: POSTERS - 1}
    (winner,) = (answer.json() for answer in answers if answer.status == 202)
    assert named(served.database, "body-%") == [winner["name"]]
    problems = {answer.json()["type"] for answer in answers if answer.status == 422}
    assert problems == {"/problems/idempotency-key-reused"}
    assert num_keys(served.database, "many") == 1
    # The winner's body gets its answer for ever, another's never.
    again, other = (
        served.ask("POST", BATCHES, batch(name), headers) for name in (winner["name"], "body-x")
    )
    assert (again.status, again.json(), other.status) == (202, winner, 422)


def new_profile(served: Served, slug: str) -> Answer:
    body = {"slug": slug, "name": slug, "gpu_type": "H100", "defaults": SEED}
    made = served.ask("POST", PROFILES, body)
    assert made.status == 201, made
    return made


def revise(served: Served) -> tuple[str, str, Callable[[str], list[tuple[Any, ...]]]]:
    made = new_profile(served, "revised")
    path = f"{PROFILES}/revised"
    return (
        path,
        made.headers["etag"],
        lambda tag: [
            (
                *("POST", f"{path}/revisions"),
                {"name": f"racer {k}", "gpu_type": "H100", "defaults": SEED},
                {"If-Match": tag},
            )
            for k in range(CHANGERS)
        ],
    )


def archive(served: Served) -> tuple[str, str, Callable[[str], list[tuple[Any, ...]]]]:
    made = new_profile(served, "archived")
    path = f"{PROFILES}/archived"
    return (
        path,
        made.headers["etag"],
        lambda tag: [("POST", f"{path}/archival", None, {"If-Match": tag})] * CHANGERS,
    )


def rename_key(served: Served) -> tuple[str, str, Callable[[str], list[tuple[Any, ...]]]]:
    made = served.ask("POST", "/v1/api-keys", {"name": "raced for", "role": "viewer"})
    assert made.status == 201, made
    path = f"/v1/api-keys/{made.json()['id']}"
    return (
        path,
        made.headers["etag"],
        lambda tag: [
            ("PATCH", path, {"name": f"racer {k}"}, {"If-Match": tag}) for k in range(CHANGERS)
        ],
    )


@pytest.mark.parametrize("prepare", [revise, archive, rename_key])
def test_of_16_changes_of_one_version_one_wins(
    served: Served, prepare: Callable[[Served], Any]
) -> None:
    path, old_tag, changes = prepare(served)
    answers = served.race(changes(old_tag))
    (winner,) = (answer for answer in answers if answer.status in {200, 201})
    assert Counter(answer.status for answer in answers) == {
        winner.status: 1,
        412: CHANGERS - 1,
    }
    problems = {answer.json()["type"] for answer in answers if answer.status == 412}
    assert problems == {"/problems/precondition-failed"}
    now = served.ask("GET", path)
    assert now.json() == winner.json()
    assert now.headers["etag"] == winner.headers["etag"] != old_tag


def ended_batch(served: Served, name: str) -> Answer:
    accepted = served.ask("POST", BATCHES, batch(name))
    assert accepted.status == 202, accepted
    if not served.database.is_sqlite:
        # These processes compute nothing there, and no worker runs.
        complete(served.database)
    path = f"{accepted.headers['location']}/results"
    while served.ask("GET", path).status == 409:
        time.sleep(0.05)
    return served.ask("GET", accepted.headers["location"])


def test_16_repricings_at_once_are_numbered_in_turn(served: Served) -> None:
    ended = ended_batch(served, "priced")
    path = f"{BATCHES}/{ended.json()['id']}"
    answers = served.race([("POST", f"{path}/repricings", {"currency": "EUR"})] * CHANGERS)
    assert Counter(answer.status for answer in answers) == {201: CHANGERS}
    made = sorted((answer.json() for answer in answers), key=lambda one: one["pricing"])
    assert [one["pricing"] for one in made] == list(range(2, CHANGERS + 2))
    # Each was told its own.
    assert served.ask("GET", f"{path}/pricings").json()["items"][1:] == made
    now = served.ask("GET", path, None, {"If-None-Match": ended.headers["etag"]})
    assert now.status == 200
    assert now.json()["version"] == ended.json()["version"] + CHANGERS


def test_of_16_deletions_of_one_version_one_wins_and_the_others_find_nothing(
    served: Served,
) -> None:
    ended = ended_batch(served, "deleted")
    path = f"{BATCHES}/{ended.json()['id']}"
    tag = {"If-Match": ended.headers["etag"]}
    answers = served.race([("DELETE", path, None, tag)] * CHANGERS)
    assert Counter(answer.status for answer in answers) == {204: 1, 404: CHANGERS - 1}


def test_whatever_is_done_to_one_batch_at_once_is_no_defect(served: Served) -> None:
    """Each has its turn before the deletion or finds no batch after it."""
    ended = ended_batch(served, "torn at")
    path = f"{BATCHES}/{ended.json()['id']}"
    changes: list[tuple[Any, ...]] = [
        ("POST", f"{path}/repricings", {"currency": "EUR"}),
        ("POST", f"{path}/publication"),
        ("POST", f"{path}/retries", {}),
        ("POST", "/v1/exports", {"format": "csv", "batch": ended.json()["id"]}),
    ]
    deletion = ("DELETE", path, None, {"If-Match": ended.headers["etag"]})
    answers = served.race([*changes * 2, deletion, *changes * 2])
    found = {answer.status for answer in answers}
    assert found <= {201, 202, 204, 404, 409, 412}, answers


def test_what_is_made_by_16_at_once_is_there_once(served: Served) -> None:
    profile = {"slug": "sole", "name": "sole", "gpu_type": "H100", "defaults": SEED}
    rate = {
        "gpu_type": "sole",
        "price_per_gpu_hour": {"amount": "2.10", "currency": "EUR"},
        "valid_from": "2026-10-01",
        "source": "a contract",
    }
    for path, body in ((PROFILES, profile), ("/v1/gpu-hour-rates", rate)):
        answers = served.race([("POST", path, body)] * CHANGERS)
        assert Counter(answer.status for answer in answers) == {201: 1, 409: CHANGERS - 1}
    listed = served.ask("GET", "/v1/gpu-hour-rates?gpu_type=sole").json()["items"]
    assert len(listed) == 1
    path = f"/v1/gpu-hour-rates/{listed[0]['id']}"
    tag = {"If-Match": served.ask("GET", path).headers["etag"]}
    corrections = [
        (
            *("POST", f"{path}/corrections"),
            {"price_per_gpu_hour": {"amount": f"3.{k:02}", "currency": "EUR"}, "reason": "typo"},
            tag,
        )
        for k in range(CHANGERS)
    ]
    answers = served.race(corrections)
    assert Counter(answer.status for answer in answers) == {201: 1, 412: CHANGERS - 1}


def test_16_revocations_of_one_key_all_say_that_it_is_revoked(served: Served) -> None:
    made = served.ask("POST", "/v1/api-keys", {"name": "lost", "role": "viewer"})
    path = f"/v1/api-keys/{made.json()['id']}"
    answers = served.race([("POST", f"{path}/revocation")] * CHANGERS)
    assert Counter(answer.status for answer in answers) == {200: CHANGERS}
    assert len({answer.json()["revoked_at"] for answer in answers}) == 1
    assert answers[0].json()["revoked_at"] is not None


def test_what_is_known_is_not_sent_again(served: Served) -> None:
    made = new_profile(served, "known")
    tags = (made.headers["etag"], f'"0", {made.headers["etag"]}', "*", '"0"')
    path = f"{PROFILES}/known"
    answers = served.race([("GET", path, None, {"If-None-Match": tag}) for tag in tags])
    assert [answer.status for answer in answers] == [304, 304, 304, 200]
    assert {answer.headers["etag"] for answer in answers} == {made.headers["etag"]}
    assert [answer.body for answer in answers[:3]] == [b"", b"", b""]
    revised = served.ask(
        "POST",
        f"{path}/revisions",
        {"name": "new", "gpu_type": "H100", "defaults": SEED},
        {"If-Match": made.headers["etag"]},
    )
    again = served.ask("GET", path, None, {"If-None-Match": made.headers["etag"]})
    assert (again.status, again.headers["etag"]) == (200, revised.headers["etag"])
