"""The two batches of a loss report: one row an item, paired as histories pair them."""

from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.loss_report import PricedDays
from service.reports.pairing import Known, paired_up
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

    `found` is its headline point, None with the reason in `missing`.
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
    missing: str | None
    found: ReportedPoint | None
    window: PricedWindow | None
    price_days: list[PricedDays]

    @property
    def known(self) -> Known:
        """What it is paired by."""
        return Known(self.name, self.profile, self.custom_id)

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
    - `appeared`, `gone`: items with numbers that the other side does not have;
    - `failed`, `returned`: (past, new) of which only the past, or only the new has numbers;
    - `ambiguous`: names that several items of a side share, told apart by their custom ids.
    """

    pairs: list[tuple[ReportedItem, ReportedItem]]
    appeared: list[ReportedItem]
    gone: list[ReportedItem]
    failed: list[tuple[ReportedItem, ReportedItem]]
    returned: list[tuple[ReportedItem, ReportedItem]]
    ambiguous: list[str]

    @property
    def one_sided(self) -> list[ReportedItem]:
        """The new items of which only one side has numbers."""
        return [item for _, item in (*self.failed, *self.returned)]


def paired(past: ReportSide, new: ReportSide) -> Paired:
    """Pair by (name, profile slug); where several of a side share that, by custom id."""
    found = paired_up(past.items, new.items, lambda item: item.known)
    return Paired(
        pairs=[(old, item) for old, item in found.pairs if old.found and item.found],
        appeared=[item for item in found.only_new if item.found],
        gone=[item for item in found.only_past if item.found],
        failed=[(old, item) for old, item in found.pairs if old.found and not item.found],
        returned=[(old, item) for old, item in found.pairs if item.found and not old.found],
        ambiguous=found.ambiguous,
    )
