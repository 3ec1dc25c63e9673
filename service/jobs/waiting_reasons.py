"""Why runs have not begun, as it is now: nothing is written while they wait for each other."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from service.db import backfills, run_queue, slot_ledger
from service.db.engine import Connection, Row
from service.jobs.reason_sentences import say
from service.jobs.run_choices import is_late
from service.jobs.run_documents import WAITING


def waiting_reasons(connection: Connection, rows: Sequence[Row[Any]]) -> dict[UUID, str]:
    """By the id of each run that waits without a reason of its own, such as a quota."""
    groups: dict[tuple[UUID, UUID | None], list[Row[Any]]] = {}
    for row in rows:
        if row.state in WAITING and row.reason is None:
            groups.setdefault((row.schedule_id, row.backfill_id), []).append(row)
    found: dict[UUID, str] = {}
    for (schedule_id, backfill_id), group in groups.items():
        schedule = slot_ledger.find_schedule(connection, schedule_id)
        is_paused = schedule.paused_at is not None
        held = [row for row in group if is_paused and row.kind != "manual"]
        found |= {row.id: say("schedule_paused") for row in held}
        reasons = _of_backfill if backfill_id is not None else _of_schedule
        found |= reasons(connection, schedule, [row for row in group if row.id not in found])
    return found


def _of_schedule(
    connection: Connection, schedule: Row[Any], group: list[Row[Any]]
) -> dict[UUID, str]:
    kinds = ("manual",) if schedule.paused_at is not None else ()
    first = run_queue.waiting_runs(connection, schedule.id, None, kinds=kinds, limit=1)
    active = run_queue.active_runs(connection, schedule.id)
    before = [run for run in active if run.backfill_id is None]
    if schedule.definition.get("concurrency_policy") == "replace" and not any(
        is_late(run) for run in (*first, *before)
    ):
        # The first begins at once, and the one before it is stopped.
        before = []
    reason = say("waits_for_end", **_named(before[-1])) if before else None
    return _behind(group, reason, first)


def _of_backfill(
    connection: Connection, schedule: Row[Any], group: list[Row[Any]]
) -> dict[UUID, str]:
    backfill = group and backfills.get_backfill(connection, schedule.id, group[0].backfill_id)
    if not backfill:
        return {}
    active = run_queue.active_runs(connection, schedule.id)
    computing = sum(run.backfill_id == backfill.id and run.computes for run in active)
    full = say("waits_for_backfill", waiting=computing)
    first = run_queue.waiting_runs(
        connection, schedule.id, backfill.id, newest_first=backfill.newest_first, limit=1
    )
    return _behind(group, full if computing >= backfill.max_running else None, first)


def _behind(group: list[Row[Any]], reason: str | None, first: list[Row[Any]]) -> dict[UUID, str]:
    """For all the reason, or else that the first one, if any, goes before the others."""
    if reason is not None:
        return {row.id: reason for row in group}
    return {
        row.id: say("waits_for_begin", **_named(before))
        for before in first
        for row in group
        if row.id != before.id
    }


def _named(run: Row[Any]) -> dict[str, object]:
    return {"local_time": run.local_time, "run_id": run.id}
