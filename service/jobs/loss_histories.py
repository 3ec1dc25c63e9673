"""How the loss moves over time: of scenarios, of profiles, of the whole team.

A history evaluates nothing. Why the GPU-hours moved is told where a report has compared the two
runs already.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from service.db import histories, pricings
from service.db.engine import Connection, Row
from service.errors import MalformedError
from service.jobs.actors import Actor
from service.jobs.history_days import days_of, step_start
from service.jobs.history_documents import HistoryOut, HistoryQuery, Step
from service.jobs.history_runs import Found, read_runs
from service.jobs.kept_schedules import require_kept
from service.jobs.page_tokens import make_token, read_token
from service.jobs.rate_keys import keys_of
from service.reports.history import Run, Told, cost_pair, loss_history, previous_runs
from service.reports.history_totals import (
    Snapshot,
    group_runs,
    history_totals,
    previous_groups,
    runs_in_both,
)
from service.reports.loss_report import VolumeCause

LAST = "~"
"""Stands for what has no profile: after all slugs."""

Entry = TypeVar("Entry")


class Position(Struct, frozen=True, kw_only=True, order=True):
    """Where a row stands: its slot or when its batch was made, the batch, its point or group.

    With steps of time they come first.
    """

    step_on: date = date.min
    at: datetime
    batch: str
    point: int
    group: str


def history(
    connection: Connection,
    actor: Actor,
    query: HistoryQuery,
    now: datetime,
    *,
    page_size: int = 1000,
) -> HistoryOut:
    """The runs as the query asks for, oldest first; an unknown name has none.

    Raises `MalformedError` (nothing to tell of, days, token) and `NotFoundError` for a schedule
    that is not there.
    """
    if not (query.scenario or query.profile or query.schedule or query.group_by):
        raise MalformedError("give scenario, profile, schedule or group_by")
    schedule = None if query.schedule is None else require_kept(connection, actor, query.schedule)
    days = days_of(query, now, "Etc/UTC" if schedule is None else schedule.zone)
    found = read_runs(connection, actor, query, schedule=schedule, days=days)
    page = _Page(connection, actor, query, page_size)
    if query.group_by in {"profile", "team"}:
        return page.totals(found, schedule)
    return page.rows(found, schedule)


class _Page:
    """One page of an answer."""

    def __init__(
        self, connection: Connection, actor: Actor, query: HistoryQuery, page_size: int
    ) -> None:
        self._connection = connection
        self._query = query
        self._actor = actor
        self._size = page_size
        bound = msgspec.to_builtins(query)
        del bound["page_token"], bound["page_size"]
        self._bound = bound
        self._after = read_token(query.page_token, bound, Position)

    def rows(self, found: Found, schedule: Row[Any] | None) -> HistoryOut:
        """One row for each run of each scenario."""
        snapshots = {one.batch_id: one for one in found.all_snapshots}

        def on(run: Run) -> date:
            return snapshots[run.batch_id].on if run.scheduled else run.start_on

        runs = _last_of_steps(
            [run for one in found.all_snapshots for run in one.runs],
            self._query.step,
            key=lambda run: run.series,
            on=on,
        )
        pairs = [
            (run, before)
            for run, before in zip(runs, previous_runs(runs), strict=True)
            if found.before is None or run.batch_id != found.before.batch_id
        ]
        if self._query.schedule is None and len(pairs) > self._query.limit:
            pairs = pairs[-self._query.limit :]
            found = structs.replace(found, truncated=True)
        shown, token = self._cut(
            pairs,
            lambda pair: self._position(
                snapshots[pair[0].batch_id], on(pair[0]), point=pair[0].point
            ),
        )
        both = [(before, run) for run, before in shown if before is not None]
        items = loss_history(
            [run for run, _ in shown],
            [before for _, before in shown],
            withhold=not self._actor.sees_costs,
            told=self._told(both),
            keys=keys_of(self._connection, [cost_pair(*pair) for pair in both]),
        )
        return self._answer(found, schedule, token, items=items)

    def totals(self, found: Found, schedule: Row[Any] | None) -> HistoryOut:
        """One row for each run of each group."""
        groups = _last_of_steps(
            group_runs(
                found.all_snapshots, "team" if self._query.group_by == "team" else "profile"
            ),
            self._query.step,
            key=lambda group: group.group,
            on=lambda group: group.snapshot.on,
        )
        shown, token = self._cut(
            [
                (group, before)
                for group, before in zip(groups, previous_groups(groups), strict=True)
                if group.snapshot is not found.before
            ],
            lambda pair: self._position(
                pair[0].snapshot, pair[0].snapshot.on, group=pair[0].group or LAST
            ),
        )
        both = [pair for new, past in shown if past is not None for pair in runs_in_both(past, new)]
        totals = history_totals(
            [group for group, _ in shown],
            [before for _, before in shown],
            withhold=not self._actor.sees_costs,
            told=self._told(both),
            keys=keys_of(self._connection, [cost_pair(*pair) for pair in both]),
        )
        return self._answer(found, schedule, token, totals=totals)

    def _cut(
        self, entries: list[Entry], position: Callable[[Entry], Position]
    ) -> tuple[list[Entry], str | None]:
        """The entries of the page, and the token of the next one."""
        left = [entry for entry in entries if self._after is None or position(entry) > self._after]
        shown = left[: self._size]
        more = len(left) > len(shown)
        return shown, make_token(self._bound, position(shown[-1])) if more else None

    def _position(
        self, snapshot: Snapshot, on: date, *, point: int = 0, group: str = ""
    ) -> Position:
        step, scheduled = self._query.step, snapshot.scheduled
        return Position(
            step_on=date.min if step == "run" else step_start(on, step),
            at=snapshot.batch_created_at if scheduled is None else scheduled.scheduled_for,
            batch=str(snapshot.batch_id),
            point=point,
            group=group,
        )

    def _told(self, pairs: Sequence[tuple[Run, Run]]) -> Told:
        """The causes that reports have found, those of newer reports in the place of older ones."""
        needed = {(new.batch_id, past.batch_id) for past, new in pairs}
        rows = histories.list_changes(self._connection, needed, name=self._query.scenario)
        return {
            (row.batch_id, row.point, row.past_batch_id, row.past_point): msgspec.convert(
                row.causes, list[VolumeCause]
            )
            for row in rows
        }

    def _answer(
        self, found: Found, schedule: Row[Any] | None, token: str | None, **rows: list[Any]
    ) -> HistoryOut:
        left_out = [out for one in found.snapshots for out in one.left_out.values()]
        return HistoryOut(
            scenario=self._query.scenario,
            schedule_id=None if schedule is None else schedule.id,
            group_by=self._query.group_by or "scenario",
            items=rows.get("items", []),
            totals=rows.get("totals", []),
            without_headline=self._without_headline(schedule, left_out),
            failed=sum(out.failed for out in left_out),
            runs_without_results=found.without_results,
            truncated=found.truncated,
            next_page_token=token,
        )

    def _without_headline(self, schedule: Row[Any] | None, left_out: Iterable[Any]) -> int:
        """Of a scenario in all batches there are; else in the runs of the history."""
        if self._query.scenario is None or schedule is not None:
            return sum(out.without_headline for out in left_out)
        return pricings.num_without_headline(
            self._connection,
            self._actor.team_id,
            name=self._query.scenario,
            profile_slug=self._query.profile,
            ended_by=self._query.as_of,
        )


def _last_of_steps(
    entries: list[Entry],
    step: Step,
    *,
    key: Callable[[Entry], Any],
    on: Callable[[Entry], date],
) -> list[Entry]:
    """Of each key, the entry of the last day in each step of time; the steps in their order.

    A batch may be made after those of later days, as by a backfill; of the last day's, the one
    that was made last.
    """
    if step == "run":
        return entries
    places = sorted(range(len(entries)), key=lambda place: (on(entries[place]), place))
    last = {(key(entries[place]), step_start(on(entries[place]), step)): place for place in places}
    ordered = sorted((begins_on, place) for (_, begins_on), place in last.items())
    return [entries[place] for _, place in ordered]
