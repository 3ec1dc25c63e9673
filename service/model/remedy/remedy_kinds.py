"""The kinds of remedies, how they are asked for and how they are stored."""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from service.model.fields import MAX_STANDING_BY

MAX_SETTINGS = 12
"""Settings that one kind may be tried with."""
MAX_REQUESTS = 16

Kind = Literal[
    "replace_slow_gpus",
    "evict_worst",
    "hot_spares",
    "faster_detection",
    "rebalance_work",
    "backup_workers",
    "balance_data",
    "checkpoint_optimal",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
COUNTED = ("evict_worst", "hot_spares", "backup_workers")

Counts = Annotated[
    tuple[Annotated[int, Meta(ge=1, le=MAX_STANDING_BY)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="evict_worst, hot_spares, backup_workers: how many GPUs more than now; default "
        "1, 2, 4, … up to one GPU in 16 and at most 64, and as many as are slow.",
        examples=[[1, 2, 4]],
    ),
]
Hours = Annotated[
    tuple[Annotated[float, Meta(ge=0, le=1e6)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="faster_detection: mean length of an episode, hours; default a half and a "
        "quarter of the scenario's.",
    ),
]
Fractions = Annotated[
    tuple[Annotated[float, Meta(ge=0, lt=1)], ...],
    Meta(
        min_length=1,
        max_length=MAX_SETTINGS,
        description="balance_data: fraction of the replica variability's cv that is left; default "
        "a half, and nothing.",
    ),
]


class RemedyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of remedy, and what to try it with."""

    kind: Annotated[Kind, Meta(description="What is done.")]
    counts: Counts | None = None
    mean_hours: Hours | None = None
    cv_fractions: Fractions | None = None


SETTINGS: dict[str, str] = {
    **dict.fromkeys(COUNTED, "counts"),
    "faster_detection": "mean_hours",
    "balance_data": "cv_fractions",
}
"""The field of a request that a kind reads; the others read none."""


class Remedy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One remedy with one setting, as it is stored; the setting says how much of it.

    count         GPUs more that are evicted, stand by or are not waited for
    mean_hours    length of an episode; or as a fraction of the scenario's, `hours_fraction`
    cv_fraction   of the replica variability that is left
    """

    kind: Kind
    count: int | None = None
    mean_hours: float | None = None
    hours_fraction: float | None = None
    cv_fraction: float | None = None

    @property
    def setting(self) -> dict[str, float] | None:
        """The parameter by name; None where the kind has none."""
        named = {
            "count": self.count,
            "mean_hours": self.mean_hours,
            "hours_fraction": self.hours_fraction,
            "cv_fraction": self.cv_fraction,
        }
        return {name: value for name, value in named.items() if value is not None} or None


class NotApplicable(Struct, frozen=True, kw_only=True):
    """A remedy that was left out, and why; without a setting where that holds for all of them."""

    kind: Kind
    setting: dict[str, float] | None
    reason: str
