"""Whether the runs of a profile drift away from it, and the notice where the profile is used."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from service.calibration.drift import (
    HIGHEST,
    MOST_OF_ONE_RUN,
    THRESHOLD,
    TOLERATED,
    Drift,
    drift_of,
)
from service.db import back_tests as rows
from service.db.engine import Connection, Row
from service.jobs.actors import Actor
from service.jobs.back_test_documents import DriftOut, DriftRule, DriftRun
from service.jobs.batch_documents import Notice
from service.jobs.digests import digest
from service.jobs.profiles import ResolvedProfile, read_profile

MOST_RUNS: Final = 100
CODE: Final = "profile_drifted"
RULE: Final = DriftRule(
    tolerated=TOLERATED,
    most_of_one_run=MOST_OF_ONE_RUN,
    threshold=THRESHOLD,
    highest=HIGHEST,
)
_WHAT_TO_DO: Final = (
    "calibrate anew: record timings of a run and accept them as the next revision "
    "(POST /v1/calibrations, or trainard calibrate --accept-into)"
)


class _Series(Struct, frozen=True, kw_only=True):
    """The runs of a scenario in the order of observation, each once, and their drift."""

    runs: list[Row[Any]]
    drift: Drift

    @property
    def first(self) -> Row[Any] | None:
        """The first run of the drift, if there is one."""
        return None if self.drift.since is None else self.runs[self.drift.since]

    @property
    def mean_ratio(self) -> float | None:
        """Geometric mean, of the counted runs of the drift or of all."""
        runs = self.runs[self.drift.since or 0 :]
        logs = [math.log(run.ratio) for run in runs if run.departure is not None]
        return math.exp(math.fsum(logs) / len(logs)) if logs else None


def read_drift(connection: Connection, actor: Actor, slug: str) -> DriftOut:
    """The drift of a profile's newest revision; raises `NotFoundError`."""
    profile = read_profile(connection, actor, slug)
    series = _series(connection, actor.team_id, slug, digest(profile.defaults))
    shown = _shown(series)
    num_counted = sum(run.departure is not None for run in series.runs)
    is_warned = series.drift.direction is not None
    since = series.drift.since
    return DriftOut(
        profile=slug,
        revision=profile.revision,
        state="warning" if is_warned else "steady" if series.runs else "no_runs",
        direction=series.drift.direction,
        since=None if since is None else shown[since],
        mean_ratio=series.mean_ratio,
        num_runs=len(series.runs),
        num_counted=num_counted,
        detail=_sentence(series, slug, num_counted),
        what_to_do=_WHAT_TO_DO if is_warned else None,
        rule=RULE,
        runs=shown,
    )


def drift_notice(
    connection: Connection, actor: Actor, profile: ResolvedProfile | None, pointer: str = "/profile"
) -> list[Notice]:
    """What whoever uses the profile should know of its runs: one query; empty if all is well."""
    if profile is None:
        return []
    series = _series(connection, actor.team_id, profile.slug, digest(profile.defaults))
    if series.drift.direction is None:
        return []
    detail = f"{_sentence(series, profile.slug, len(series.runs))}; {_WHAT_TO_DO}"
    return [Notice(pointer=pointer, code=CODE, detail=detail)]


def _series(connection: Connection, team_id: UUID, slug: str, defaults_digest: str) -> _Series:
    found = rows.list_series(connection, team_id, slug, defaults_digest, limit=MOST_RUNS)
    runs = _each_once(found)
    return _Series(runs=runs, drift=drift_of([run.departure for run in runs]))


def _each_once(found: Sequence[Row[Any]]) -> list[Row[Any]]:
    """In the order of observation; of tests of one run only the one that was made last."""
    newest: dict[str, Row[Any]] = {}
    for row in found:
        known = newest.get(row.run_key)
        if known is None or _made(row) > _made(known):
            newest[row.run_key] = row
    return sorted(newest.values(), key=lambda row: (row.observed_at, row.id))


def _made(row: Row[Any]) -> tuple[datetime, UUID]:
    return row.created_at, row.id


def _shown(series: _Series) -> list[DriftRun]:
    return [
        DriftRun(
            id=row.id,
            run_name=row.run_name,
            revision=row.profile_revision,
            observed_at=row.observed_at,
            num_gpus=row.num_gpus,
            ratio=row.ratio,
            verdict=row.verdict,
            departure=row.departure,
            explained_by=row.explained_by,
            slower_sum=point.slower,
            faster_sum=point.faster,
        )
        for row, point in zip(series.runs, series.drift.points, strict=True)
    ]


def _sentence(series: _Series, slug: str, num_counted: int) -> str:
    if not series.runs:
        return f"no run has been held against {slug!r} as it is now"
    first, ratio = series.first, series.mean_ratio
    if first is None or ratio is None:
        return f"{num_counted} runs of {slug!r} do not drift away from what it predicts"
    return (
        f"runs of {slug!r} have drifted away from what it predicts since {first.run_name!r} of "
        f"{first.observed_at:%Y-%m-%d}: their steps take {abs(ratio - 1):.1%} "
        f"{'more' if ratio > 1 else 'less'} than predicted"
    )
