"""Money of a loss report: of all items on 30 days, and of each so that they add up to it."""

from collections.abc import Sequence
from fractions import Fraction

from msgspec import Struct

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.cost_changes import CostChange, CostPair, cost_changes
from service.reports.money import CostStatus, Money, apportion, money, total
from service.reports.pricing import cost, cost_status, exact_hours, mean_price
from service.reports.report_sides import ReportedItem, ReportSide
from service.reports.volume import MONTH_DAYS

USEFUL = "gpu_hours_useful"
LOSSES = tuple(name for name in ATTRIBUTION_COLUMNS if name != USEFUL)


class ReportCosts(Struct, frozen=True, kw_only=True):
    """What the loss of 30 days costs: together, and of each counted item by its custom id.

    - `at_least`: what its days with a rate cost, where no other day can make it less;
    - `exact`: the same before it is rounded, which budgets are compared with;
    - `items_unpriced`, `unpriced_days`: what is without a rate; None without a currency.
    """

    whole: Money | None
    status: CostStatus
    of_items: dict[str, Money | None]
    at_least: Money | None
    exact: Fraction | None
    items_unpriced: int | None
    unpriced_days: int | None


class CostChanges(Struct, frozen=True, kw_only=True):
    """How the cost of 30 days changed: of all pairs together, and of each by its custom id.

    `rows` are what the changes are made of, in the order of the pairs.
    """

    whole: CostChange
    of_items: dict[str, CostChange]
    rows: list[CostPair]


def costs_of(side: ReportSide, changes: CostChanges | None) -> ReportCosts:
    """The costs of a side.

    The items shown add up to the whole shown, each rounded up or down. Where the changes shown add
    up to the same whole, each item costs what its change says, so that no reader meets two amounts
    a cent apart.
    """
    items = side.counted
    exact = [_exact(item, side.currency) for item in items]
    whole = total(exact)
    unpriced = None if side.currency is None else [_unpriced_days(item) for item in items]
    if side.currency is None or whole is None or not items:
        bound = _at_least(side)
        return ReportCosts(
            whole=None,
            status=_status(side),
            of_items={
                item.custom_id: _shown(part, side.currency)
                for item, part in zip(items, exact, strict=True)
            },
            at_least=_shown(bound, side.currency),
            exact=bound,
            items_unpriced=None if unpriced is None else sum(map(bool, unpriced)),
            unpriced_days=None if unpriced is None else sum(unpriced),
        )
    shown = money(whole, side.currency)
    parts = apportion([part or Fraction(0) for part in exact], side.currency)
    of_items: dict[str, Money | None] = {
        item.custom_id: money(part, side.currency) for item, part in zip(items, parts, strict=True)
    }
    if changes is not None and changes.whole.new == shown and len(changes.of_items) == len(items):
        of_items |= {custom_id: change.new for custom_id, change in changes.of_items.items()}
    return ReportCosts(
        whole=shown,
        status=CostStatus.PRICED,
        of_items=of_items,
        at_least=shown,
        exact=whole,
        items_unpriced=0,
        unpriced_days=0,
    )


def own_costs_of(side: ReportSide, costs: ReportCosts) -> dict[str, Money | None]:
    """What the loss of each counted item costs over its own window, by its custom id.

    Those of windows that are equally long add up to their sum, each rounded up or down, where all
    of them have a price; those of 30 days to the whole that is shown. No window has two costs.
    """
    found: dict[str, Money | None] = {}
    by_length: dict[int, list[ReportedItem]] = {}
    for item in side.counted:
        by_length.setdefault(item.period_days, []).append(item)
    for days, items in by_length.items():
        if days == MONTH_DAYS:
            found |= {item.custom_id: costs.of_items.get(item.custom_id) for item in items}
            continue
        exact = [_own_exact(item, side.currency) for item in items]
        known = [part for part in exact if part is not None]
        shown = exact
        if side.currency is not None and len(known) == len(exact):
            shown = [*map(Fraction, apportion(known, side.currency))]
        for item, part in zip(items, shown, strict=True):
            found[item.custom_id] = _shown(part, side.currency)
    return found


def changes_of(
    pairs: Sequence[tuple[ReportedItem, ReportedItem]], past: ReportSide, new: ReportSide
) -> CostChanges:
    """How the cost of 30 days changed, split into volume and price."""
    rows = [
        CostPair(
            past_hours=old.lost_per_30_days,
            new_hours=item.lost_per_30_days,
            past_window=old.window,
            new_window=item.window,
        )
        for old, item in pairs
    ]
    whole, parts = cost_changes([[row] for row in rows], past.currency, new.currency)
    of_items = {item.custom_id: part for (_, item), part in zip(pairs, parts, strict=True)}
    return CostChanges(whole=whole, of_items=of_items, rows=rows)


def costs_of_causes(side: ReportSide) -> dict[str, Money]:
    """What each cause costs on 30 days, for a side of which every item has a price.

    The causes other than useful work add up to the cost of what is not useful, rounded once. That
    is more than the cost of the loss: an exchange at nominal speed is not useful, and yet no loss.
    """
    currency = side.currency or ""
    prices = [mean_price(item.window) or Fraction(0) for item in side.counted]
    exact = {
        name: sum(
            (
                exact_hours(item.hours_per_30_days(name)) * price
                for item, price in zip(side.counted, prices, strict=True)
            ),
            Fraction(0),
        )
        for name in ATTRIBUTION_COLUMNS
    }
    amounts = apportion([exact[name] for name in LOSSES], currency)
    return {
        USEFUL: money(exact[USEFUL], currency),
        **{name: money(amount, currency) for name, amount in zip(LOSSES, amounts, strict=True)},
    }


def _own_exact(item: ReportedItem, currency: str | None) -> Fraction | None:
    """As the list of results rounds it."""
    lost = 0.0 if item.found is None else item.found.hours("gpu_hours_lost")
    return None if currency is None else cost(lost, item.window)


def _exact(item: ReportedItem, currency: str | None) -> Fraction | None:
    return None if currency is None else cost(item.lost_per_30_days, item.window)


def _at_least(side: ReportSide) -> Fraction | None:
    """What the priced days cost; None where there are none, or where a gain has no price."""
    windows = [(item, item.window) for item in side.counted]
    priced = [(item, window) for item, window in windows if window is not None and window.lines]
    gains = any(item.lost_per_30_days < 0 and _unpriced_days(item) for item in side.counted)
    if side.currency is None or gains or not priced:
        return None
    paid = [
        exact_hours(item.lost_per_30_days)
        * sum((Fraction(line.price) * line.days for line in window.lines), Fraction(0))
        / window.period_days
        for item, window in priced
    ]
    return sum(paid, Fraction(0))


def _unpriced_days(item: ReportedItem) -> int:
    return item.period_days if item.window is None else item.window.unpriced_days


def _shown(exact: Fraction | None, currency: str | None) -> Money | None:
    return None if exact is None or currency is None else money(exact, currency)


def _status(side: ReportSide) -> CostStatus:
    found = {cost_status(item.window) for item in side.counted}
    if side.currency is None or found <= {CostStatus.NO_RATE}:
        return CostStatus.NO_RATE
    return CostStatus.PARTLY_PRICED
