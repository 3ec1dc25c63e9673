"""Totals of a comparison: headline points only, per profile and over all of them.

Points of a grid are alternatives and are never added (design page "Decisions", 9). What could
not be counted is counted.
"""

from collections.abc import Sequence
from typing import Annotated, TypedDict

import numpy as np
from msgspec import Meta, Struct

from service.reports.changes import Change, change_of_sums
from service.reports.compare import pairs_at, splits_at
from service.reports.cost_changes import CostChange, cost_changes, withheld_change
from service.reports.ideals import LOST, LostSplit, lost_split
from service.reports.join import Joined, Rows, Side


class LeftOut(Struct, frozen=True, kw_only=True):
    """Items that no total holds, by reason."""

    without_headline_in_baseline: int
    without_headline_in_candidate: int
    unmatched_in_baseline: Annotated[
        int, Meta(description="Headline points whose key is no headline of the candidate.")
    ]
    unmatched_in_candidate: int
    failed: Annotated[int, Meta(description="Headline points that failed on a side.")]


class Total(Struct, frozen=True, kw_only=True):
    """Sums over the headline points that both sides have; `items` of them."""

    items: int
    left_out: LeftOut
    gpu_hours_lost: Change
    ideal_changed: bool
    lost_split: LostSplit | None
    cost_of_loss: CostChange


class ProfileTotal(Total, frozen=True, kw_only=True):
    """The total of one profile; null for inline scenarios."""

    profile: str | None


class Summary(Total, frozen=True, kw_only=True):
    """The total of everything, and of each profile in the order of their names."""

    profiles: list[ProfileTotal]


def summary(joined: Joined, *, withhold: bool = False) -> Summary:
    """Sum the headline points of both sides; `withhold` hides all money."""
    sides = (joined.baseline, joined.candidate)
    profiles = {item.profile for side in sides for item in side.items}
    paired = _paired_headlines(joined)
    slugs = [
        joined.baseline.items[item].profile
        for item in joined.baseline.item[joined.past_rows[paired]].tolist()
    ]
    ordered = sorted(profiles, key=lambda slug: (slug is None, slug or ""))
    chosen = [
        paired[np.array([slug == profile for slug in slugs], dtype=np.bool_)] for profile in ordered
    ]
    money, moneys = _costs(joined, chosen, withhold=withhold)
    return Summary(
        profiles=[
            ProfileTotal(profile=profile, **_sums(joined, rows, {profile}), cost_of_loss=cost)
            for profile, rows, cost in zip(ordered, chosen, moneys, strict=True)
        ],
        cost_of_loss=money,
        **_sums(joined, paired, profiles),
    )


class _Sums(TypedDict):
    """The fields of a Total that are no money."""

    items: int
    left_out: LeftOut
    gpu_hours_lost: Change
    ideal_changed: bool
    lost_split: LostSplit | None


def _sums(joined: Joined, paired: Rows, profiles: set[str | None]) -> _Sums:
    counted = _computed(joined, paired)
    changed, parts = splits_at(joined, counted)
    return {
        "items": len(counted),
        "left_out": LeftOut(
            without_headline_in_baseline=_without_headline(joined.baseline, profiles),
            without_headline_in_candidate=_without_headline(joined.candidate, profiles),
            unmatched_in_baseline=len(_headlines(joined.baseline, profiles)) - len(paired),
            unmatched_in_candidate=len(_headlines(joined.candidate, profiles)) - len(paired),
            failed=len(paired) - len(counted),
        ),
        "gpu_hours_lost": change_of_sums(joined.past(LOST, counted), joined.new(LOST, counted)),
        "ideal_changed": bool(changed.any()),
        "lost_split": lost_split(parts) if changed.any() else None,
    }


def _costs(
    joined: Joined, groups: Sequence[Rows], *, withhold: bool
) -> tuple[CostChange, list[CostChange]]:
    if withhold:
        return withheld_change(), [withheld_change() for _ in groups]
    return cost_changes(
        [pairs_at(joined, _computed(joined, rows)) for rows in groups],
        joined.baseline.currency,
        joined.candidate.currency,
    )


def _computed(joined: Joined, rows: Rows) -> Rows:
    """Those of the rows that failed on no side."""
    failed = np.isnan(joined.past(LOST, rows)) | np.isnan(joined.new(LOST, rows))
    return rows[~failed]


def _paired_headlines(joined: Joined) -> Rows:
    """Rows of the join that are the headline of an item on both sides.

    A few headlines are looked up in the sorted `past_rows`; the grid itself is not walked.
    """
    points = np.sort(np.array(_headlines(joined.baseline), dtype=np.int64))
    places = np.searchsorted(joined.past_rows, points)
    inside = places < joined.num_rows
    points, places = points[inside], places[inside]
    rows: Rows = places[joined.past_rows[places] == points]
    return rows[np.isin(joined.new_rows[rows], _headlines(joined.candidate))]


def _headlines(side: Side, profiles: set[str | None] | None = None) -> list[int]:
    return [
        item.headline
        for item in side.items
        if item.headline is not None and (profiles is None or item.profile in profiles)
    ]


def _without_headline(side: Side, profiles: set[str | None]) -> int:
    return sum(item.headline is None for item in side.items if item.profile in profiles)
