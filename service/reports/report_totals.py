"""The numbers of a loss report: headline, waterfall, items and movers, from its two sides."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.changes import change, change_of_sums
from service.reports.loss_report import (
    Headline,
    Mover,
    MoverKind,
    ProfileLoss,
    ReportItem,
    VolumeCause,
    WaterfallStep,
)
from service.reports.money import Money, money
from service.reports.price_causes import RateKey, rate_changes
from service.reports.pricing import cost, cost_status
from service.reports.report_costs import (
    CostChanges,
    ReportCosts,
    changes_of,
    costs_of,
    costs_of_causes,
    own_costs_of,
)
from service.reports.report_profiles import profile_totals
from service.reports.report_sides import Paired, ReportedItem, ReportSide
from service.reports.volume import summed

AVAILABLE, LOST, LOST_SE, NOT_USEFUL = (
    "gpu_hours_available",
    "gpu_hours_lost",
    "gpu_hours_lost_se",
    "gpu_hours_not_useful",
)


class ReportNumbers(Struct, frozen=True, kw_only=True):
    """What a report says in numbers; `exact_cost` is `priced_cost_per_30_days`, not rounded."""

    headline: Headline
    exact_cost: Fraction | None
    waterfall: list[WaterfallStep]
    items: list[ReportItem]
    movers: list[Mover]
    profiles: list[ProfileLoss]


class Compared(Struct, frozen=True, kw_only=True):
    """The side that a report compares with.

    `volume` are the causes of each pair, in their order; `keys` what the rates of both price.
    """

    past: ReportSide
    paired: Paired
    volume: Sequence[Sequence[VolumeCause]]
    keys: Mapping[str, RateKey]


def numbers_of(
    batch_id: object, new: ReportSide, compared: Compared | None, *, movers: int
) -> ReportNumbers:
    """All numbers; `movers` are shown at most."""
    changes = None
    if compared is not None and compared.paired.pairs:
        changes = changes_of(compared.paired.pairs, compared.past, new)
    costs = costs_of(new, changes)
    return ReportNumbers(
        headline=_headline(new, compared, costs, changes),
        exact_cost=costs.exact,
        waterfall=_waterfall(new, compared, costs),
        items=_items(str(batch_id), new, compared, costs, changes),
        movers=_movers(new, compared, costs, changes)[:movers],
        profiles=profile_totals(new, None, None)
        if compared is None
        else profile_totals(new, compared.past, compared.paired),
    )


def standard_error(items: Iterable[ReportedItem]) -> float | None:
    """Of the summed loss on 30 days; None where nothing is sampled.

    Items of one seed draw the same numbers, so that their errors may all have one sign: they are
    added. Those of different seeds are independent.
    """
    of_seeds: dict[int, float] = {}
    for item in items:
        error = item.hours_per_30_days(LOST_SE)
        of_seeds[item.seed] = of_seeds.get(item.seed, 0.0) + error
    error = math.hypot(*of_seeds.values())
    return error if error > 0 else None


def _headline(
    new: ReportSide,
    compared: Compared | None,
    costs: ReportCosts,
    changes: CostChanges | None,
) -> Headline:
    items = new.counted
    available = _sum(items, AVAILABLE)
    lost = _sum(items, LOST)
    moved, volume, rates = None, [], []
    counts = {}
    if compared is not None:
        counts = {
            "items_appeared": len(compared.paired.appeared),
            "items_gone": len(compared.paired.gone),
            "items_failed": len(compared.paired.failed),
            "items_returned": len(compared.paired.returned),
        }
    if compared is not None and changes is not None:
        pairs = compared.paired.pairs
        moved = change_of_sums(
            [old.lost_per_30_days for old, _ in pairs], [item.lost_per_30_days for _, item in pairs]
        )
        volume = summed(compared.volume, moved.difference or 0.0)
        currencies = (compared.past.currency, new.currency)
        rates = rate_changes(changes.rows, currencies, changes.whole, compared.keys)
    return Headline(
        items=len(items),
        items_compared=0 if changes is None else len(changes.rows),
        gpu_hours_available_per_30_days=available,
        gpu_hours_lost_per_30_days=lost,
        gpu_hours_lost_se_per_30_days=standard_error(items),
        loss_fraction=lost / available if available else 0.0,
        gpu_hours_not_useful_per_30_days=_sum(items, NOT_USEFUL),
        cost_of_loss_per_30_days=costs.whole,
        cost_status=costs.status,
        gpu_hours_lost_change=moved,
        cost_of_loss_change=None if changes is None else changes.whole,
        volume=volume,
        rates=rates,
        priced_cost_per_30_days=costs.at_least,
        items_unpriced=costs.items_unpriced,
        unpriced_days=costs.unpriced_days,
        past_gpu_hours_lost_per_30_days=None
        if compared is None
        else _sum(compared.past.counted, LOST),
        **counts,
    )


def _waterfall(
    new: ReportSide, compared: Compared | None, costs: ReportCosts
) -> list[WaterfallStep]:
    """The causes that take time on either side; they sum to what is available, exactly."""
    hours = _closed(new)
    past = None if compared is None else _closed(compared.past)
    amounts = {} if costs.whole is None else costs_of_causes(new)
    return [
        WaterfallStep(
            column=name,
            gpu_hours_per_30_days=hours[name],
            past_gpu_hours_per_30_days=None if past is None else past[name],
            cost_per_30_days=amounts.get(name),
        )
        for name in ATTRIBUTION_COLUMNS
        if hours[name] or (past is not None and past[name])
    ]


def _closed(side: ReportSide) -> dict[str, float]:
    """The summed causes, which sum to the available: the largest takes what floats leave.

    What that one is too large to hold goes to the smallest.
    """
    hours = {name: _sum(side.counted, name) for name in ATTRIBUTION_COLUMNS}
    available = _sum(side.counted, AVAILABLE)
    ordered = sorted((name for name in hours if hours[name]), key=lambda name: -abs(hours[name]))
    for name in (*ordered[:1], *ordered[-1:]):
        hours[name] += math.fsum([available, *(-part for part in hours.values())])
    return hours


def _items(
    batch_id: str,
    new: ReportSide,
    compared: Compared | None,
    costs: ReportCosts,
    changes: CostChanges | None,
) -> list[ReportItem]:
    pair_of = {}
    if compared is not None and changes is not None:
        pair_of = {
            item.custom_id: (old, row, volume)
            for (old, item), row, volume in zip(
                compared.paired.pairs, changes.rows, compared.volume, strict=True
            )
        }
    own_costs = own_costs_of(new, costs)
    shown = []
    for item in new.items:
        moved, moved_cost, volume, rates = None, None, [], []
        if compared is not None and changes is not None and item.custom_id in pair_of:
            old, row, causes = pair_of[item.custom_id]
            moved = change(old.lost_per_30_days, item.lost_per_30_days)
            moved_cost = changes.of_items[item.custom_id]
            volume = list(causes)
            currencies = (compared.past.currency, new.currency)
            rates = rate_changes([row], currencies, moved_cost, compared.keys)
        shown.append(
            ReportItem(
                custom_id=item.custom_id,
                name=item.name,
                profile=item.profile,
                profile_revision=item.profile_revision,
                missing=item.missing,
                start_on=item.start_on,
                period_days=item.period_days,
                gpu_type=item.gpu_type,
                cost_center=item.cost_center,
                price_days=item.price_days,
                unpriced_days=sum(part.days for part in item.price_days if part.rate_id is None),
                cost_status=cost_status(item.window),
                cost_of_loss=own_costs.get(item.custom_id),
                cost_of_loss_per_30_days=costs.of_items.get(item.custom_id),
                change=moved,
                cost_change=moved_cost,
                volume=volume,
                rates=rates,
                **_point_fields(batch_id, item),
            )
        )
    return shown


def _point_fields(batch_id: str, item: ReportedItem) -> dict[str, Any]:
    """What is null where the item has no numbers."""
    found = item.found
    values = {} if found is None else found.values
    gpus = values.get("num_gpus")
    return {
        "result_id": None if found is None else f"{batch_id}.{found.point}",
        "method": None if found is None else found.method,
        "num_gpus": None if gpus is None else int(gpus),
        "gpu_hours_lost_per_30_days": None if found is None else item.lost_per_30_days,
        "causes": {}
        if found is None
        else {name: hours for name in ATTRIBUTION_COLUMNS if (hours := found.hours(name))},
        **{
            name: values.get(name)
            for name in (
                "step_mean_ms",
                "ideal_step_ms",
                "efficiency_fraction",
                AVAILABLE,
                LOST,
                "gpu_hours_lost_p10",
                "gpu_hours_lost_p90",
                LOST_SE,
            )
        },
    }


def _movers(
    new: ReportSide,
    compared: Compared | None,
    costs: ReportCosts,
    changes: CostChanges | None,
) -> list[Mover]:
    """What moved, came or went, failed or came back, the largest first."""
    if compared is None:
        return []
    found = []
    if changes is not None:
        for (old, item), causes in zip(compared.paired.pairs, compared.volume, strict=True):
            moved = change(old.lost_per_30_days, item.lost_per_30_days)
            if moved.difference:
                found.append(
                    _mover(
                        item,
                        "changed",
                        (moved.past, moved.new),
                        moved.difference,
                        relative=moved.relative,
                        amount=changes.of_items[item.custom_id].difference,
                        cause=max(
                            causes, key=lambda part: abs(part.gpu_hours_per_30_days), default=None
                        ),
                    )
                )
    pairs = compared.paired
    come: dict[MoverKind, list[ReportedItem]] = {
        "appeared": pairs.appeared,
        "returned": [item for _, item in pairs.returned],
    }
    for kind, item in _each(come):
        lost = item.lost_per_30_days
        amount = costs.of_items.get(item.custom_id)
        found.append(_mover(item, kind, (None, lost), lost, amount=amount))
    same_currency = compared.past.currency == new.currency
    went: dict[MoverKind, list[ReportedItem]] = {
        "gone": pairs.gone,
        "failed": [old for old, _ in pairs.failed],
    }
    for kind, item in _each(went):
        lost = item.lost_per_30_days
        amount = _gone_cost(item, new.currency) if same_currency else None
        found.append(_mover(item, kind, (lost, None), -lost, amount=amount))
    return sorted(found, key=lambda mover: -abs(mover.difference_per_30_days))


def _each(
    groups: Mapping[MoverKind, Sequence[ReportedItem]],
) -> Iterator[tuple[MoverKind, ReportedItem]]:
    for kind, items in groups.items():
        yield from ((kind, item) for item in items)


def _mover(
    item: ReportedItem,
    kind: MoverKind,
    hours: tuple[float | None, float | None],
    difference: float,
    *,
    relative: float | None = None,
    amount: Money | None = None,
    cause: VolumeCause | None = None,
) -> Mover:
    return Mover(
        custom_id=item.custom_id,
        name=item.name,
        profile=item.profile,
        kind=kind,
        past_gpu_hours_lost_per_30_days=hours[0],
        new_gpu_hours_lost_per_30_days=hours[1],
        difference_per_30_days=difference,
        relative=relative,
        cost_difference_per_30_days=amount,
        main_cause=cause,
    )


def _gone_cost(item: ReportedItem, currency: str | None) -> Money | None:
    exact = None if currency is None else cost(item.lost_per_30_days, item.window)
    return None if exact is None or currency is None else money(-Fraction(exact), currency)


def _sum(items: Iterable[ReportedItem], column: str) -> float:
    return math.fsum(item.hours_per_30_days(column) for item in items)
