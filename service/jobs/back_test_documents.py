"""What a caller sends to hold a run against its profile, and what it gets back."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from service.calibration.drift import Direction
from service.calibration.prediction import Prediction
from service.calibration.run_comparison import (
    Comparison,
    Component,
    Ms,
    Observed,
    Phase,
    Verdict,
)
from service.jobs.batch_documents import (
    Name,
    Notice,
    Overrides,
    ProfileReference,
    ScenarioObject,
)
from service.jobs.documents import MAX_NUMBER

# As of timings that are fitted: below a microsecond the unit is another
LEAST_STEP_MS = 0.001
Tolerance = Annotated[
    float,
    Meta(
        ge=0.001,
        le=0.5,
        description="How far the observed mean step may be from the predicted one, as a fraction "
        "of it, before it counts.",
    ),
]
DriftState = Literal["no_runs", "steady", "warning"]


class RunIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a run: its steps, without restarts between them."""

    name: Annotated[Name, Meta(description="Once of each revision, such as the job's id.")]
    num_steps: Annotated[int, Meta(ge=1, le=MAX_NUMBER, description="Completed steps.")]
    step_mean_ms: Annotated[
        float,
        Meta(
            ge=LEAST_STEP_MS,
            le=1e12,
            description="Wall-clock time of all its steps over their number.",
        ),
    ]
    num_gpus: (
        Annotated[int, Meta(ge=1, le=10_000_000, description="Default: what the scenario says.")]
        | None
    ) = None
    observed_at: (
        Annotated[
            datetime,
            Meta(
                tz=True,
                description="When it ran, such as its start: runs drift in this order. Not in the "
                "future. Default: now.",
                examples=["2026-11-29T00:00:00Z"],
            ),
        ]
        | None
    ) = None
    step_sd_ms: Annotated[Phase, Meta(description="Standard deviation of single steps.")] | None = (
        None
    )
    step_p50_ms: Annotated[Ms, Meta(description="Half of its steps are shorter.")] | None = None
    step_p95_ms: Annotated[Ms, Meta(description="95 % of its steps are shorter.")] | None = None
    gpu_hours: (
        Annotated[
            Ms,
            Meta(
                description="What the run held, restarts and all; default: its steps by its GPUs."
            ),
        ]
        | None
    ) = None
    load_ms: Annotated[Phase, Meta(description="Loading that a step waits for, mean.")] | None = (
        None
    )
    slowest_compute_ms: (
        Annotated[
            Phase,
            Meta(
                description="Compute of the slowest rank of a step, mean; with a pipeline of its "
                "slowest pass through all stages."
            ),
        ]
        | None
    ) = None
    communication_ms: (
        Annotated[
            Phase,
            Meta(
                description="Communication that a step waits for once its slowest rank has come, "
                "mean: not what the ranks before it wait."
            ),
        ]
        | None
    ) = None


class BackTestIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run and the profile that should have foretold it; either `run` or `calibration`."""

    profile: ProfileReference
    run: RunIn | None = None
    calibration: (
        Annotated[
            UUID,
            Meta(
                description="Observed timings that are stored: their mean step with its interval, "
                "steps and ranks."
            ),
        ]
        | None
    ) = None
    overrides: Annotated[
        Overrides,
        Meta(description="How this run differs from the profile, apart from its number of GPUs."),
    ] = msgspec.field(default_factory=dict)
    tolerance_fraction: Tolerance = 0.05


class BackTestSummary(Struct, frozen=True, kw_only=True):
    """A back-test in a list."""

    id: UUID
    profile: Annotated[str, Meta(description="`slug@revision`.")]
    run_name: str
    calibration_id: UUID | None
    num_gpus: int
    num_steps: int
    observed_at: datetime
    observed_step_mean_ms: float
    predicted_step_mean_ms: float
    ratio: Annotated[float, Meta(description="Observed over predicted.")]
    departure: float | None
    verdict: Verdict
    explained_by: Component | None
    tolerance_fraction: float
    model_version: str
    created_at: datetime
    created_by: str
    version: int


class BackTestOut(BackTestSummary, frozen=True, kw_only=True):
    """A back-test: what was observed, what was predicted, and the verdict. It never changes."""

    observed: Observed
    predicted: Prediction
    comparison: Comparison
    overrides: Annotated[dict[str, Any], Meta(description="As sent.")]
    scenario: Annotated[
        ScenarioObject,
        Meta(description="The scenario that was predicted, at the size of the run."),
    ]
    warnings: list[Notice]
    team: str


class BackTestPage(Struct, frozen=True, kw_only=True):
    """A page of back-tests, those observed last first."""

    items: list[BackTestSummary]
    next_page_token: str | None


class DriftRun(Struct, frozen=True, kw_only=True):
    """A run of the series, and the sums after it."""

    id: UUID
    run_name: str
    revision: int
    observed_at: datetime
    num_gpus: int
    ratio: float
    verdict: Verdict
    departure: Annotated[
        float | None,
        Meta(description="In units of what is tolerated; null: not known, and not counted."),
    ]
    explained_by: Component | None
    slower_sum: float
    faster_sum: float


class DriftRule(Struct, frozen=True, kw_only=True):
    """sum = min(highest, max(0, sum + min(departure - tolerated, most_of_one_run)))."""

    tolerated: float
    most_of_one_run: float
    threshold: Annotated[float, Meta(description="A sum of this or more is a drift.")]
    highest: float


class DriftOut(Struct, frozen=True, kw_only=True):
    """Whether the runs of a profile drift away from what it predicts."""

    profile: str
    revision: Annotated[
        int, Meta(description="The newest. Runs of earlier ones with the same scenario count too.")
    ]
    state: DriftState
    direction: Annotated[
        Direction | None, Meta(description="Runs are slower, or faster, than predicted.")
    ]
    since: Annotated[DriftRun | None, Meta(description="The first run of the drift.")]
    mean_ratio: Annotated[
        float | None,
        Meta(
            description="Geometric mean of observed over predicted, of the runs of the drift or of "
            "all."
        ),
    ]
    num_runs: int
    num_counted: Annotated[int, Meta(description="Runs whose departure is known.")]
    detail: str
    what_to_do: str | None
    rule: DriftRule
    runs: Annotated[
        list[DriftRun], Meta(description="In the order of observation; the last 100 at most.")
    ]
