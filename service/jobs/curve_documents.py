"""What a caller sends for a curve of the loss along one axis, and what it gets back."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from service.jobs.batch_documents import Notice, Overrides, ProfileReference, ScenarioObject
from service.jobs.evaluations import LeaveOut

MOST_POINTS: Final = 64
MOST_SPREADS: Final = 20
"""Points whose spread is worked out: with every source each takes half a second."""


class CurveIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario, inline or of a profile, and the axis along which it is looked at."""

    scenario: ScenarioObject | None = None
    profile: ProfileReference | None = None
    overrides: Overrides = msgspec.field(default_factory=dict)
    axis: (
        Annotated[
            dict[str, Any],
            Meta(
                description="One axis, as of a batch: `{path, values | range | logspace | "
                f"powers_of_two}}`, at most {MOST_POINTS} values. Default: `num_gpus`, the powers "
                "of two from 8 to 131 072 and the scenario's own.",
                examples=[{"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}}],
            ),
        ]
        | None
    ) = None
    single_draw: Annotated[
        bool,
        Meta(
            description="Whether each point also tells the one step that the scenario's `seed` "
            "draws: that of `ranks` of an evaluation."
        ),
    ] = True
    leave_out: Annotated[
        LeaveOut,
        Meta(
            description="As of an evaluation. A curve holds nothing of causes and of quantiles of "
            "steps; without `spread`, which takes most of the time, p10 and p90 are null. With it "
            f"at most {MOST_SPREADS} points are answered at once."
        ),
    ] = ()


class DrawnPoint(Struct, frozen=True, kw_only=True):
    """What the one drawn step loses, as if every step were it."""

    step_ms: float
    efficiency_fraction: float
    gpu_hours_lost_per_day: float
    gpu_hours_lost: Annotated[float, Meta(description="Over the loss window.")]


class PointFailure(Struct, frozen=True, kw_only=True):
    """Why a point has no figures."""

    code: str
    detail: str


class CurvePoint(Struct, frozen=True, kw_only=True):
    """The scenario with one value of the axis: columns of its evaluation; all null if it fails."""

    value: Any
    step_mean_ms: float | None
    efficiency_fraction: float | None
    gpu_hours_lost_per_day: float | None
    gpu_hours_lost: float | None
    gpu_hours_lost_p10: float | None
    gpu_hours_lost_p90: float | None
    drawn: Annotated[
        DrawnPoint | None,
        Meta(
            description="Null where it is not asked for, where no GPU waits for all others in "
            "every step, and where the draw would take too long, which is a warning."
        ),
    ]
    failure: PointFailure | None


class CurveOut(Struct, frozen=True, kw_only=True):
    """The loss along the axis, by its values in their order."""

    path: str
    rows: list[CurvePoint]
    warnings: list[Notice]
    model_version: str
