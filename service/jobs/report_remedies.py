"""The best remedies for the scenarios that lose most, in the time that a report has for them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from service.db.engine import Row
from service.errors import InvalidError
from service.jobs.point_costs import work_of
from service.jobs.remedies import Resolved, answer
from service.jobs.remedy_documents import RemedyOut
from service.jobs.report_reading import scenario_of
from service.model.remedy.remedies import applicable
from service.model.remedy.remedy_grid import remedy_grid
from service.model.remedy.remedy_kinds import Setting
from service.model.scenario import decode_scenario, full
from service.reports.loss_report import ReportNotice, ReportRemedy
from service.reports.pricing import priced
from service.reports.report_notices import notice
from service.reports.report_sides import ReportedItem, ReportSide
from service.reports.report_view import label

NUM_ITEMS: Final = 3
NUM_EACH: Final = 3
# Estimated seconds of one core, for all items together
LONGEST_S: Final = 20.0
OF_TIME: Final = "they would take too long"


class Ranked(NamedTuple):
    """The remedies of a report, and what had to be left out."""

    remedies: list[ReportRemedy]
    notices: list[ReportNotice]


def rank(side: ReportSide, rows: Sequence[Row[Any]], *, longest_s: float = LONGEST_S) -> Ranked:
    """The best remedies of the items that lose most on 30 days, what gives back most first.

    What would take longer than `longest_s` in all is left out, with a notice.
    """
    by_id: Mapping[str, Row[Any]] = {row.custom_id: row for row in rows}
    losing = sorted(side.counted, key=lambda item: -item.lost_per_30_days)[:NUM_ITEMS]
    found: list[ReportRemedy] = []
    notices: list[ReportNotice] = []
    left_s = longest_s
    for item in losing:
        if item.lost_per_30_days <= 0 or item.found is None:
            continue
        name = label(item.name, item.custom_id)
        document = full(scenario_of(by_id[item.custom_id], item.found.point))
        scenario = msgspec.json.encode(document, order="sorted")
        needed_s = _core_s(scenario)
        if needed_s > left_s:
            notices.append(notice("remedies_left_out", name=name, reason=OF_TIME))
            continue
        left_s -= needed_s
        try:
            answered = _answered(scenario)
        except InvalidError as error:
            notices.append(notice("remedies_left_out", name=name, reason=error.detail))
            continue
        found += _shown(item, answered, side.currency)
    found.sort(key=lambda remedy: -remedy.gpu_hours_given_back_per_30_days)
    return Ranked(found, notices)


def _core_s(scenario: bytes) -> float:
    """Estimated seconds of one core for all remedies that apply."""
    decoded = decode_scenario(msgspec.json.decode(scenario))
    changes, _ = applicable(decoded, [])
    return work_of(remedy_grid(decoded, changes)).core_s


@lru_cache(maxsize=256)
def _answered(scenario: bytes) -> tuple[RemedyOut, ...]:
    """The best setting of each kind of remedy, best first.

    Kept: from night to night, and in a backfill, most scenarios are what they were. Other
    settings are ranked by `POST /v1/evaluations/remedies`.
    """
    decoded = decode_scenario(msgspec.json.decode(scenario))
    best: dict[str, RemedyOut] = {}
    for remedy in answer(Resolved(scenario=decoded, requests=[])).remedies:
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
