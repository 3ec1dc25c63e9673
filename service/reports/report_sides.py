"""The two batches of a loss report: one row an item, paired as comparisons pair their points."""

from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.loss_report import PricedDays
from service.reports.pricing import PricedWindow
from service.reports.volume import MONTH_DAYS

# What a report shows of a headline point, beside what it is made of
SHOWN_COLUMNS = (
    "num_gpus",
    "step_mean_ms",
    "ideal_step_ms",
    "efficiency_fraction",
    "gpu_hours_available",
    "gpu_hours_lost",
    "gpu_hours_not_useful",
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p90",
    "gpu_hours_lost_se",
    "is_extrapolated",
    "method",
)
REPORT_COLUMNS = (*SHOWN_COLUMNS, *ATTRIBUTION_COLUMNS)


class ReportedPoint(Struct, frozen=True, kw_only=True):
    """The headline point of an item: `point` in its batch, and its columns; absent ones are None.

    `method` is its label, `window` None where money is not asked for.
    """

    point: int
    values: Mapping[str, float | None]
    method: str
    is_extrapolated: bool

    def hours(self, column: str) -> float:
        """GPU-hours of the item's window; 0 where the model has no such column."""
        return self.values.get(column) or 0.0


class ReportedItem(Struct, frozen=True, kw_only=True):
    """One item of a side.

    - `axes`: the value on each axis of either side, by path: with name and profile its key;
    - `found`: its headline point, None with the reason in `missing`.
    """

    custom_id: str
    name: str
    profile: str | None
    profile_revision: int | None
    start_on: date
    period_days: int
    seed: int
    gpu_type: str | None
    cost_center: str | None
    axes: bytes
    missing: str | None
    found: ReportedPoint | None
    window: PricedWindow | None
    price_days: list[PricedDays]

    @property
    def per_30_days(self) -> float:
        """What GPU-hours of the window are multiplied with to be those of 30 days."""
        return MONTH_DAYS / self.period_days

    @property
    def lost_per_30_days(self) -> float:
        """GPU-hours lost on 30 days; 0 where it has no numbers."""
        return self.hours_per_30_days("gpu_hours_lost")

    def hours_per_30_days(self, column: str) -> float:
        """GPU-hours of a column on 30 days; 0 where it has no numbers."""
        return 0.0 if self.found is None else self.found.hours(column) * self.per_30_days


class ReportSide(Struct, frozen=True, kw_only=True):
    """The items of one batch in its order, and the currency of its pricing."""

    items: Sequence[ReportedItem]
    currency: str | None
    model_version: str

    @property
    def counted(self) -> list[ReportedItem]:
        """The items that have numbers."""
        return [item for item in self.items if item.found is not None]


class Paired(Struct, frozen=True, kw_only=True):
    """Which items of both sides are one scenario.

    - `pairs`: (past, new) that both have numbers;
    - `appeared`, `gone`: items with numbers whose key the other side does not have;
    - `one_sided`: items whose counterpart has no numbers;
    - `ambiguous`: names that several items of a side share, told apart by their custom ids.
    """

    pairs: list[tuple[ReportedItem, ReportedItem]]
    appeared: list[ReportedItem]
    gone: list[ReportedItem]
    one_sided: list[ReportedItem]
    ambiguous: list[str]


def paired(past: ReportSide, new: ReportSide) -> Paired:
    """Pair by (name, profile slug, values on the axes); where several share that, by custom id."""
    past_of, new_of = _by_key(past.items), _by_key(new.items)
    partners: list[tuple[ReportedItem, ReportedItem]] = []
    ambiguous = []
    for key, olds in past_of.items():
        news = new_of.get(key, [])
        if len(olds) == len(news) == 1:
            partners.append((olds[0], news[0]))
            continue
        if len(olds) > 1 or len(news) > 1:
            ambiguous.append(key[0])
        by_id = {item.custom_id: item for item in news}
        partners += [(old, by_id[old.custom_id]) for old in olds if old.custom_id in by_id]
    ambiguous += [key[0] for key, news in new_of.items() if key not in past_of and len(news) > 1]
    known_past = {old.custom_id for old, _ in partners}
    known_new = {item.custom_id for _, item in partners}
    return Paired(
        pairs=[(old, item) for old, item in partners if old.found and item.found],
        appeared=[item for item in new.counted if item.custom_id not in known_new],
        gone=[item for item in past.counted if item.custom_id not in known_past],
        one_sided=[item for old, item in partners if (old.found is None) != (item.found is None)],
        ambiguous=list(dict.fromkeys(ambiguous)),
    )


def _by_key(
    items: Sequence[ReportedItem],
) -> dict[tuple[str, str | None, bytes], list[ReportedItem]]:
    found: dict[tuple[str, str | None, bytes], list[ReportedItem]] = {}
    for item in items:
        found.setdefault((item.name, item.profile, item.axes), []).append(item)
    return found
