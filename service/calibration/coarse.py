"""What p50 and p95 of step times tell, for those who have no timings by rank.

A step of N GPUs is L + C max_i X_i + A. Two readings of its quantiles are taken to their ends:

    transient  all of the spread is each GPU's own from step to step: (q95 - L - A) / (q50 - L - A)
               is the ratio of the quantiles of the maximum of N, which gives the cv, and then C
    common     all GPUs are slower together: the same with N = 1; nobody waits for anybody

A quantile p of the maximum is the (1 - p^(1/N)) upper quantile of one GPU, by the model's own laws.
Which of the two it is, p50 and p95 do not tell, and a GPU that is slow in every step raises both
of them alike: it is invisible here.
"""

from typing import Annotated, Any, Final, Literal

import numpy as np
from msgspec import Meta, Struct

from service.calibration.coarse_unknowns import unknown_of, warnings_of
from service.calibration.findings import Coarse, CoarseEstimate, Estimate, Family
from service.calibration.options import PositiveMs
from service.calibration.refusals import Fault, TimingsRefusedError, refused
from service.model.columns import columns_of
from service.model.fields import MAX_GPUS, MAX_NODE_GPUS
from service.model.kernel import evaluate
from service.model.laws.gamma import Gamma
from service.model.laws.law import Law
from service.model.laws.lognormal import LogNormal
from service.model.laws.normal import MAX_CV_NORMAL, Normal
from service.model.problems import InvalidScenario
from service.model.scenario import decode_scenario

MIN_CV: Final = 1e-9
"""Below it there is no spread to speak of."""
MAX_CV: Final = 1.0
# Laws by their family, and the largest cv that a scenario takes of each.
_LAWS: Final[dict[Family, tuple[type[Normal | LogNormal | Gamma], float]]] = {
    "normal": (Normal, MAX_CV_NORMAL),
    "lognormal": (LogNormal, MAX_CV),
    "gamma": (Gamma, MAX_CV),
}


class StepQuantiles(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Quantiles of the step times of one run, and what else is known of its steps."""

    num_gpus: Annotated[int, Meta(ge=1, le=MAX_GPUS, description="That wait for one another.")]
    step_p50_ms: Annotated[PositiveMs, Meta(description="Half of the steps are shorter.")]
    step_p95_ms: Annotated[PositiveMs, Meta(description="95 % of the steps are shorter.")]
    load_ms: (
        Annotated[
            Annotated[float, Meta(ge=0, le=1e9)],
            Meta(description="Loading that the step waits for; default: not known."),
        ]
        | None
    ) = None
    communication_ms: (
        Annotated[
            Annotated[float, Meta(ge=0, le=1e9)],
            Meta(description="Communication that compute does not hide; default: not known."),
        ]
        | None
    ) = None
    gpus_per_node: Annotated[int, Meta(ge=1, le=MAX_NODE_GPUS)] | None = None
    tensor_parallel_size: Annotated[int, Meta(ge=1, le=MAX_NODE_GPUS)] | None = None
    period_days: Annotated[int, Meta(ge=1, le=3660, description="The loss window, days.")] = 30

    @property
    def outside_ms(self) -> float:
        """What stands in every step beside compute."""
        return (self.load_ms or 0.0) + (self.communication_ms or 0.0)

    @property
    def phases_are_known(self) -> bool:
        """Whether both other phases are."""
        return self.load_ms is not None and self.communication_ms is not None


def coarse_start(observed: StepQuantiles) -> Coarse:
    """All readings, each a whole scenario of these quantiles, and the intervals they span.

    Raises `TimingsRefusedError` for quantiles that no reading has.
    """
    _refuse_nonsense(observed)
    transient = _readings(observed, observed.num_gpus)
    common = _readings(observed, 1)
    if not transient:
        raise _too_far_apart(observed)
    readings = [
        *(_reading(observed, "transient", family, cv) for family, cv in transient.items()),
        *(_reading(observed, "common", family, cv) for family, cv in common.items()),
    ]
    first = readings[0]
    lost = [reading.gpu_hours_lost for reading in readings]
    computes = [reading.compute_ms for reading in readings]
    largest_cv = max(transient.values())
    return Coarse(
        transient_cv=Estimate(
            value=first.cv,
            low=0.0,
            high=largest_cv if observed.phases_are_known else None,
            method="readings",
        ),
        compute_ms=Estimate(
            value=first.compute_ms,
            low=min(computes) if observed.phases_are_known else None,
            high=max(computes),
            method="readings",
        ),
        gpu_hours_lost=Estimate(
            value=first.gpu_hours_lost,
            low=min(0.0, *lost),
            high=max(lost),
            method="readings_without_persistent_slowness",
        ),
        readings=readings,
        unknown=unknown_of(observed.load_ms, observed.communication_ms),
        warnings=warnings_of(
            observed.step_p95_ms / observed.step_p50_ms,
            left_out=[family for family in _LAWS if family not in transient],
            phases_are_known=observed.phases_are_known,
        ),
    )


def _refuse_nonsense(observed: StepQuantiles) -> None:
    faults = []
    if observed.step_p95_ms < observed.step_p50_ms:
        faults.append(
            Fault(
                code="inconsistent_times",
                field="step_p95_ms",
                detail=f"step_p95_ms is {observed.step_p95_ms:g}, below step_p50_ms "
                f"{observed.step_p50_ms:g}: 95 % of the steps are no shorter than half of them",
            )
        )
    if observed.outside_ms >= observed.step_p50_ms:
        faults.append(
            Fault(
                code="inconsistent_times",
                field="load_ms" if observed.load_ms else "communication_ms",
                detail=f"load_ms and communication_ms add up to {observed.outside_ms:g}, but half "
                f"of the steps take at most step_p50_ms {observed.step_p50_ms:g}: nothing is left "
                "for compute. Give only what the step waits for, not what compute hides",
            )
        )
    if faults:
        raise TimingsRefusedError(*faults)


def _readings(observed: StepQuantiles, num_draws: int) -> dict[Family, float]:
    """The cv of the maximum of `num_draws` by family; without those that cannot reach the ratio."""
    outside = observed.outside_ms
    ratio = (observed.step_p95_ms - outside) / (observed.step_p50_ms - outside)
    found: dict[Family, float] = {}
    for family, (law, most) in _LAWS.items():
        cv = _cv_of(law, ratio, num_draws, most)
        if cv is not None:
            found[family] = cv
    return found


def _cv_of(law: Law, ratio: float, num_draws: int, most: float) -> float | None:
    """Of which the quantiles of the maximum have this ratio; None above `most`."""

    def beyond(cv: float) -> float:
        p50, p95 = _quantiles(law, cv, num_draws)
        return p95 / p50 - ratio

    if beyond(MIN_CV) >= 0:
        return 0.0
    if beyond(most) < 0:
        return None
    # Here, since it takes a service that starts half a second to import.
    from scipy import optimize  # noqa: PLC0415

    # The ratio rises with the cv.
    return float(optimize.brentq(beyond, MIN_CV, most, xtol=1e-15, rtol=1e-13))


def _quantiles(law: Law, cv: float, num_draws: int) -> tuple[float, float]:
    """p50 and p95 of the largest of `num_draws` factors."""
    upper = -np.expm1(np.log([[0.5], [0.95]]) / num_draws)
    p50, p95 = law.upper_quantile(upper, np.array([[cv]]))[:, 0]
    return float(p50), float(p95)


def _reading(
    observed: StepQuantiles, hypothesis: Literal["transient", "common"], family: Family, cv: float
) -> CoarseEstimate:
    num_draws = observed.num_gpus if hypothesis == "transient" else 1
    factor = 1.0 if cv == 0 else _quantiles(_LAWS[family][0], cv, num_draws)[0]
    compute = (observed.step_p50_ms - observed.outside_ms) / factor
    document = _document(observed, compute, {hypothesis: {"kind": family, "cv": cv}})
    try:
        scenario = decode_scenario(document)
    except InvalidScenario as error:
        raise TimingsRefusedError(
            *(
                Fault(
                    code="not_a_scenario",
                    field=problem.pointer.removeprefix("/") or None,
                    detail=problem.detail,
                )
                for problem in error.problems
            )
        ) from None
    columns = evaluate(columns_of(scenario), with_spread=False, with_causes=False).columns
    return CoarseEstimate(
        hypothesis=hypothesis,
        overrides=document,
        compute_ms=compute,
        cv=cv,
        step_mean_ms=float(columns["step_mean_ms"][0]),
        gpu_hours_lost=float(columns["gpu_hours_lost"][0]),
    )


def _document(
    observed: StepQuantiles, compute_ms: float, variability: dict[str, Any]
) -> dict[str, Any]:
    """A whole scenario; its names are paths too, for a profile to take."""
    document: dict[str, Any] = {
        "num_gpus": observed.num_gpus,
        "compute_ms": compute_ms,
        "load_ms": observed.load_ms or 0.0,
        "communication": {"kind": "fixed", "allreduce_ms": observed.communication_ms or 0.0},
        "slow_groups": [],
        "variability": variability,
        "period_days": observed.period_days,
    }
    for name in ("gpus_per_node", "tensor_parallel_size"):
        value = getattr(observed, name)
        if value is not None:
            document[name] = value
    return document


def _too_far_apart(observed: StepQuantiles) -> TimingsRefusedError:
    most = []
    for law, largest in _LAWS.values():
        p50, p95 = _quantiles(law, largest, observed.num_gpus)
        most.append(p95 / p50)
    outside = observed.outside_ms
    ratio = (observed.step_p95_ms - outside) / (observed.step_p50_ms - outside)
    return refused(
        "inconsistent_times",
        f"without load_ms and communication_ms p95 is {ratio:.4g} times p50, but the slowest of "
        f"{observed.num_gpus} GPUs reaches at most {max(most):.4g} times even at a cv of "
        f"{MAX_CV:g}: some steps hold something else (checkpoints, evaluations, stalls). Leave "
        "them out, or calibrate from timings by rank",
        field="step_p95_ms",
    )
