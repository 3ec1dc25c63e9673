"""The best remedies for the scenarios that lose most, in the time that a report has for them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, NamedTuple

import msgspec

from service.db.engine import Row
from service.errors import InvalidError
from service.jobs.remedies import Resolved, answer, within_reach
from service.jobs.remedy_costs import ranking_core_s
from service.jobs.remedy_documents import RemedyOut
from service.jobs.report_reading import scenario_of
from service.model.remedy.remedy_kinds import Setting
from service.model.scenario import decode_scenario, full
from service.reports.loss_report import RemediesLeftOut, ReportNotice, ReportRemedy
from service.reports.pricing import priced
from service.reports.report_notices import notice
from service.reports.report_sides import ReportedItem, ReportSide
from service.reports.report_view import label

NUM_ITEMS: Final = 3
NUM_EACH: Final = 3
# Estimated seconds of one core, for all items together
LONGEST_S: Final = 20.0
# Seconds of the clock, after which no other item is begun: some times what the estimate allows, so
# that only a machine that is far too busy gets there
LATEST_S: Final = 120.0
OF_TIME: Final = "they would take too long"
OF_CLOCK: Final = "those of the others took longer than expected"


class Ranked(NamedTuple):
    """The remedies of a report, and what had to be left out."""

    remedies: list[ReportRemedy]
    left_out: list[RemediesLeftOut]
    notices: list[ReportNotice]


def rank(
    side: ReportSide,
    rows: Sequence[Row[Any]],
    *,
    longest_s: float = LONGEST_S,
    latest_s: float = LATEST_S,
) -> Ranked:
    """The best remedies of the items that lose most on 30 days, what gives back most first.

    The biggest come first. What would take longer than `longest_s` in all is left out, and so is
    what is not begun within `latest_s`: the report says which, and why.
    """
    by_id: Mapping[str, Row[Any]] = {row.custom_id: row for row in rows}
    found: list[ReportRemedy] = []
    left_out: list[tuple[ReportedItem, str]] = []
    left_s, begun = longest_s, perf_counter()
    for item in _losing_most(side):
        scenario = _scenario(item, by_id[item.custom_id])
        try:
            needed_s = _core_s(scenario)
            if needed_s > left_s:
                left_out.append((item, OF_TIME))
            elif perf_counter() - begun > latest_s:
                left_out.append((item, OF_CLOCK))
            else:
                left_s -= needed_s
                found += _shown(item, _answered(scenario), side.currency)
        except InvalidError as error:
            left_out.append((item, error.detail))
    found.sort(key=lambda remedy: -remedy.gpu_hours_given_back_per_30_days)
    return Ranked(
        remedies=found,
        left_out=[
            RemediesLeftOut(custom_id=item.custom_id, name=item.name, reason=reason)
            for item, reason in left_out
        ],
        notices=[
            notice("remedies_left_out", name=label(item.name, item.custom_id), reason=reason)
            for item, reason in left_out
        ],
    )


def _losing_most(side: ReportSide) -> list[ReportedItem]:
    losing = sorted(side.counted, key=lambda item: -item.lost_per_30_days)[:NUM_ITEMS]
    return [item for item in losing if item.lost_per_30_days > 0]


def _scenario(item: ReportedItem, row: Row[Any]) -> bytes:
    point = 0 if item.found is None else item.found.point
    return msgspec.json.encode(full(scenario_of(row, point)), order="sorted")


def _core_s(scenario: bytes) -> float:
    """Estimated seconds of one core for all remedies that apply."""
    resolved = _resolved(scenario)
    grid, _ = within_reach(resolved)
    return ranking_core_s(resolved.scenario, grid)


def _resolved(scenario: bytes) -> Resolved:
    return Resolved(scenario=decode_scenario(msgspec.json.decode(scenario)), requests=[])


@lru_cache(maxsize=256)
def _answered(scenario: bytes) -> tuple[RemedyOut, ...]:
    """The best setting of each kind of remedy, best first.

    Kept: from night to night, and in a backfill, most scenarios are what they were. Other
    settings are ranked by `POST /v1/evaluations/remedies`.
    """
    best: dict[str, RemedyOut] = {}
    for remedy in answer(_resolved(scenario)).remedies:
        if remedy.gpu_hours_given_back > 0:
            best.setdefault(remedy.kind, remedy)
    return tuple(best.values())[:NUM_EACH]


def _shown(
    item: ReportedItem, answered: Sequence[RemedyOut], currency: str | None
) -> Iterator[ReportRemedy]:
    for remedy in answered:
        given_back = remedy.gpu_hours_given_back * item.per_30_days
        cost = priced(given_back, item.window, currency)
        yield ReportRemedy(
            custom_id=item.custom_id,
            name=item.name,
            kind=remedy.kind,
            setting=_text(remedy.setting),
            gpu_hours_given_back=remedy.gpu_hours_given_back,
            gpu_hours_given_back_se=remedy.gpu_hours_given_back_se,
            gpu_hours_given_back_per_30_days=given_back,
            is_more_than_lost=given_back > item.lost_per_30_days,
            cost_given_back_per_30_days=cost.cost,
            cost_status=cost.cost_status,
        )


def _text(setting: Setting | None) -> str | None:
    """How much of it, in names and values that need no translation."""
    if setting is None:
        return None
    return ", ".join(f"{name} {_value(value)}" for name, value in setting.items())


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
