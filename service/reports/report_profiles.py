"""The loss of 30 days by profile, of all items of both sides: they add up to the headline's."""

import math
from collections import Counter

from service.reports.loss_report import ProfileLoss
from service.reports.report_sides import Paired, ReportedItem, ReportSide


def profile_totals(
    new: ReportSide, past: ReportSide | None, paired: Paired | None
) -> list[ProfileLoss]:
    """One row a profile, the largest loss first; null stands for what has no profile."""
    new_of = _by_profile(new)
    past_of = {} if past is None else _by_profile(past)
    appeared, gone, failed, returned = _counted(paired)
    rows = [
        ProfileLoss(
            profile=profile,
            items=len(new_of.get(profile, [])),
            gpu_hours_lost_per_30_days=_lost(new_of.get(profile, [])),
            past_gpu_hours_lost_per_30_days=None
            if past is None
            else _lost(past_of.get(profile, [])),
            items_appeared=appeared[profile],
            items_gone=gone[profile],
            items_failed=failed[profile],
            items_returned=returned[profile],
        )
        for profile in new_of | past_of
    ]
    return sorted(rows, key=lambda row: (-row.gpu_hours_lost_per_30_days, row.profile or ""))


def _by_profile(side: ReportSide) -> dict[str | None, list[ReportedItem]]:
    found: dict[str | None, list[ReportedItem]] = {}
    for item in side.counted:
        found.setdefault(item.profile, []).append(item)
    return found


def _lost(items: list[ReportedItem]) -> float:
    return math.fsum(item.lost_per_30_days for item in items)


def _counted(paired: Paired | None) -> list[Counter[str | None]]:
    """How many items of each profile appeared, are gone, failed and returned."""
    groups: list[list[ReportedItem]] = [[], [], [], []]
    if paired is not None:
        failed, returned = ([item for _, item in both] for both in (paired.failed, paired.returned))
        groups = [paired.appeared, paired.gone, failed, returned]
    return [Counter(item.profile for item in items) for items in groups]
