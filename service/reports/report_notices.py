"""What the reader of a loss report must know: every notice of it, with its English sentence."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.reports.changes import change
from service.reports.loss_report import BudgetOutcome, ReportNotice
from service.reports.report_sides import Paired, ReportedItem, ReportSide
from service.reports.report_view import label

# A standard error above this part of the loss is worth a warning
SAMPLED_FRACTION: Final = 0.01
# Names that one sentence holds
SHOWN_NAMES: Final = 5

NOTICES: Final = {
    "batch_incomplete": "The batch was {state} before all was computed: what is missing is in no "
    "sum.",
    "failed_points": "{failed} of {total} points failed. They are in no sum.",
    "headline_failed": "Headline points that failed and are in no sum: {items} ({names}).",
    "headline_not_computed": "Headline points that were not computed and are in no sum: {items} "
    "({names}).",
    "items_without_headline": "Grids of alternatives without a headline point, which are in no "
    "sum: {items} ({names}).",
    "unpriced_days": "Days without a rate, of all items together: {days}. Items whose cost is "
    "therefore not known: {items} ({names}).",
    "currencies_differ": "The batch is priced in {new} and the one before in {past}: nothing is "
    "converted, and the difference is not known.",
    "unmatched_items": "The change is only of what both runs have. Items that appeared: "
    "{appeared}; that are gone: {gone}.",
    "counterpart_missing": "Items that have numbers in one of both runs only, and are in no "
    "change: {items} ({names}).",
    "ambiguous_names": "Items that share name and profile were told apart by their custom "
    "ids: {names}.",
    "windows_overlap": "Windows that overlap those of the run before, by up to {days} days: "
    "{items}. The losses of both are not to be added.",
    "window_length_changed": "Windows that are not as long as in the run before: {items} "
    "({names}). On 30 days they compare.",
    "ideal_changed": "Items whose ideal step moved: {items} ({names}). Part of their change is the "
    "yardstick's.",
    "model_version_changed": "The model is {new} and was {past}: part of the change may be the "
    "model's.",
    "sampled": "Items that are simulated with a standard error of more than 1 % of their loss: "
    "{items} ({names}), up to {percent} %. More draws make it smaller.",
    "spread_not_computed": "Items of which the range from p10 to p90 is not known: {items} "
    "({names}).",
    "extrapolated_tail": "Items whose slowest GPU lies beyond the tail that was observed: {items} "
    "({names}). Their loss rests on how the tail goes on.",
    "reused": "Nothing was computed again: the results of batch {batch} were taken over, since "
    "inputs and model are the same.",
    "profile_drifted": "Observed runs have drifted away from what their profiles predict: {names}. "
    "The losses here rest on those profiles: calibrate them anew.",
    "budget_unknown": "Whether the budget of money is kept is not known: not all days have a rate "
    "in its currency.",
    "budget_incomplete": "Whether the budget is kept is not known. Items without numbers: {items}.",
    "remedies_left_out": "Remedies for {name} were left out: {reason}.",
}
"""Codes of the notices that a report makes itself; those of its run are passed on as they are."""


def notice(code: str, **params: str | float) -> ReportNotice:
    """The notice with its English sentence."""
    return ReportNotice(code=code, detail=NOTICES[code].format(**params), params={**params})


def notices_of_side(
    side: ReportSide, *, state: str, points_failed: int, points_total: int
) -> Iterator[ReportNotice]:
    """What is to be known of the batch itself."""
    if state in {"canceled", "expired"}:
        yield notice("batch_incomplete", state=state)
    if points_failed:
        yield notice("failed_points", failed=points_failed, total=points_total)
    for code, missing in (
        ("headline_failed", "failed"),
        ("headline_not_computed", "not_computed"),
        ("items_without_headline", "no_headline"),
    ):
        yield from _about(code, [item for item in side.items if item.missing == missing])
    if side.currency is not None:
        days = {item.custom_id: _unpriced(item) for item in side.counted}
        partly = [item for item in side.counted if days[item.custom_id]]
        yield from _about("unpriced_days", partly, days=sum(days.values()))
    yield from _of_numbers(side)


def _of_numbers(side: ReportSide) -> Iterator[ReportNotice]:
    errors = {item.custom_id: _relative_error(item) for item in side.counted}
    drawn = [item for item in side.counted if errors[item.custom_id] > SAMPLED_FRACTION]
    percent = max((100 * errors[item.custom_id] for item in drawn), default=0.0)
    yield from _about("sampled", drawn, percent=f"{percent:.2g}")
    found = [(item, item.found) for item in side.counted if item.found is not None]
    yield from _about(
        "spread_not_computed",
        [item for item, point in found if point.values.get("gpu_hours_lost_p90") is None],
    )
    yield from _about("extrapolated_tail", [item for item, point in found if point.is_extrapolated])


def notices_of_comparison(
    past: ReportSide, new: ReportSide, pairs: Paired
) -> Iterator[ReportNotice]:
    """What is to be known of the two batches side by side."""
    if past.model_version != new.model_version:
        yield notice("model_version_changed", past=past.model_version, new=new.model_version)
    if past.currency and new.currency and past.currency != new.currency:
        yield notice("currencies_differ", past=past.currency, new=new.currency)
    if pairs.appeared or pairs.gone:
        yield notice("unmatched_items", appeared=len(pairs.appeared), gone=len(pairs.gone))
    yield from _about("counterpart_missing", pairs.one_sided)
    if pairs.ambiguous:
        yield notice("ambiguous_names", names=_listed(pairs.ambiguous))
    overlaps = [(_overlap(old, item), item) for old, item in pairs.pairs]
    common = [item for days, item in overlaps if days > 0]
    if common:
        yield notice("windows_overlap", items=len(common), days=max(days for days, _ in overlaps))
    yield from _about(
        "window_length_changed",
        [item for old, item in pairs.pairs if old.period_days != item.period_days],
    )
    yield from _about("ideal_changed", [item for old, item in pairs.pairs if _moved(old, item)])


def notices_of_budget(outcome: BudgetOutcome | None, num_missing: int) -> Iterator[ReportNotice]:
    """Why nobody can say whether the budget is kept."""
    if outcome is None or outcome.status != "unknown":
        return
    if outcome.reason_unknown in {"no_rate", "other_currency"}:
        yield notice("budget_unknown")
    if num_missing:
        yield notice("budget_incomplete", items=num_missing)


def notices_of_profiles(drifted: Sequence[str]) -> Iterator[ReportNotice]:
    """That runs tell otherwise than these profiles, by slug."""
    if drifted:
        yield notice("profile_drifted", names=_listed(drifted))


def _about(
    code: str, items: Sequence[ReportedItem], **params: str | float
) -> Iterator[ReportNotice]:
    """One notice about all of the items; none about no items."""
    if items:
        names = _listed([label(item.name, item.custom_id) for item in items])
        yield notice(code, items=len(items), names=names, **params)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f", + {more}" if more > 0 else "")


def _unpriced(item: ReportedItem) -> int:
    return sum(part.days for part in item.price_days if part.rate_id is None)


def _relative_error(item: ReportedItem) -> float:
    error, lost = item.hours_per_30_days("gpu_hours_lost_se"), abs(item.lost_per_30_days)
    return error / lost if lost else 0.0


def _overlap(old: ReportedItem, item: ReportedItem) -> int:
    """Days that both windows have."""
    first, after = max(old.start_on, item.start_on), min(_after(old), _after(item))
    return max(after - first.toordinal(), 0)


def _after(item: ReportedItem) -> int:
    return item.start_on.toordinal() + item.period_days


def _moved(old: ReportedItem, item: ReportedItem) -> bool:
    steps = [point.found.values.get("ideal_step_ms") for point in (old, item) if point.found]
    past, new = (step or 0.0 for step in steps)
    return bool(change(past, new).difference)
