"""The edge of a use case: its transaction, its thread and its actor."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import anyio.to_thread

from service.api.contract import ApiRequest
from service.api.turns import Turns
from service.db.engine import Connection, Database
from service.jobs.actors import Actor
from service.settings import Settings

T = TypeVar("T")


def database_of(request: ApiRequest) -> Database:
    """The database of the serving app."""
    database: Database = request.app.state.database
    return database


def settings_of(request: ApiRequest) -> Settings:
    """The settings of the serving app."""
    settings: Settings = request.app.state.settings
    return settings


def actor_of(request: ApiRequest) -> Actor:
    """Who acts; the gate has found it out before the handler was called."""
    actor: Actor = request.state.actor
    return actor


def shows_no_costs(request: ApiRequest) -> None:
    """This answer holds no money, though others of the operation may: no reading is recorded."""
    request.state.shows_no_costs = True


async def in_thread(work: Callable[[], T]) -> T:
    """Run blocking work off the event loop."""
    return await anyio.to_thread.run_sync(work)


async def in_turn(request: ApiRequest, work: Callable[[], T], *, is_brief: bool = False) -> T:
    """Run work that takes seconds off the event loop: one at a time for each caller.

    The body is read, so that all there is to come from the client is that it goes: work that waits
    is then dropped.
    """
    turns: Turns = request.app.state.turns

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return await turns.take(caller_of(request), work, is_brief=is_brief, gone=gone)


def caller_of(request: ApiRequest) -> str:
    """Whose turn it is."""
    actor = actor_of(request)
    return f"{actor.team_id} {actor.principal}"


async def read(request: ApiRequest, use_case: Callable[[Connection], T]) -> T:
    """Run `use_case(connection)` on one snapshot, in a thread."""
    return await in_thread(partial(_read, database_of(request), use_case))


async def write(request: ApiRequest, use_case: Callable[[Connection], T]) -> T:
    """Run `use_case(connection)` in one transaction, in a thread; committed when it returns."""
    return await in_thread(partial(_write, database_of(request), use_case))


def _read(database: Database, use_case: Callable[[Connection], T]) -> T:
    with database.read() as connection:
        return use_case(connection)


def _write(database: Database, use_case: Callable[[Connection], T]) -> T:
    with database.write() as connection:
        return use_case(connection)
