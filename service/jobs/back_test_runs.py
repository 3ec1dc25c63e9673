"""From what a caller names, a run or a calibration, to what is compared."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from statistics import NormalDist
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from service.calibration.backtest import MS_PER_HOUR, compare
from service.calibration.findings import Estimate, Findings
from service.calibration.options import CalibrationOptions
from service.calibration.prediction import Prediction, figures_error_of, predict
from service.calibration.run_comparison import Comparison, Observed
from service.db import back_tests as rows
from service.db.engine import Connection, Row
from service.errors import FieldFault, InvalidError, NotFoundError
from service.jobs.actors import Actor
from service.jobs.back_test_documents import BackTestIn, RunIn
from service.jobs.batch_documents import Notice
from service.jobs.digests import digest
from service.jobs.evaluations import EvaluationIn, refuse_long, refuse_too_many_draws, refused
from service.jobs.planning import resolve_base
from service.jobs.profiles import ResolvedProfile
from service.model.columns import columns_of
from service.model.fields import Scenario
from service.model.parts.overlap import NoOverlap
from service.model.problems import InvalidScenario
from service.model.scenario import apply_overrides, decode_scenario

# What rounding may take off one number of a run that is held against others
ROUNDED: Final = 0.999
# Of clocks that are set wrongly, and days that have begun elsewhere
AHEAD: Final = timedelta(days=1)


class Run(Struct, frozen=True, kw_only=True):
    """What was observed, and what it is called.

    `source_key` may be tested once of a revision; what has the same `run_key` is the same run.
    `has_exposed` where communication is what of it a step waits for, not all of it.
    """

    name: str
    observed: Observed
    observed_at: datetime
    source_key: str
    run_key: str
    calibration_id: UUID | None = None
    num_missing_ranks: int = 0
    has_exposed: bool = True


class Calibrated(NamedTuple):
    """What a revision was made of, and the paths that are as they were proposed."""

    findings: Findings
    paths: frozenset[str]


class Asked(Struct, frozen=True, kw_only=True):
    """A run and the scenario that should have foretold it: all that is needed to compute."""

    document: BackTestIn
    profile: ResolvedProfile
    scenario: Scenario
    run: Run
    is_same_data: bool
    calibrated: Calibrated | None


class Tested(Struct, frozen=True, kw_only=True):
    """A run that was held against its prediction."""

    asked: Asked
    predicted: Prediction
    comparison: Comparison
    warnings: list[Notice]


def ask(connection: Connection, actor: Actor, document: BackTestIn) -> Asked:
    """Find the profile, the run and the scenario at the run's size.

    Raises `InvalidError` with every fault, `NotFoundError` for a calibration that is not there.
    """
    if (document.run is None) == (document.calibration is None):
        fault = FieldFault(
            pointer="" if document.run is None else "/calibration",
            code="run_or_calibration",
            detail="give exactly one of run and calibration",
        )
        raise InvalidError(fault.detail, errors=[fault])
    profile, base = resolve_base(connection, actor, document.profile, None)
    assert profile is not None  # noqa: S101 - for the type checker: no scenario was given
    is_same_data = False
    made_of = rows.provenance_of(connection, profile.revision_id) or {}
    calibrated = _calibrated(connection, actor, made_of, document)
    if document.calibration is not None:
        told = _calibration(connection, actor, document.calibration)
        run = run_of_calibration(told)
        # The same timings sent again are another calibration, but no news.
        is_same_data = made_of.get("source_digest") == told.source_digest or (
            calibrated is not None and _key_of(calibrated.findings) == run.run_key
        )
        scenario = scenario_of(base, document, run.observed.num_gpus)
        run = msgspec.structs.replace(run, observed=_as_predicted(run, scenario))
    else:
        assert document.run is not None  # noqa: S101 - for the type checker: decided above
        scenario = scenario_of(base, document, document.run.num_gpus)
        run = _run_of(document.run, scenario.num_gpus, calibrated)
    return Asked(
        document=document,
        profile=profile,
        scenario=scenario,
        run=run,
        is_same_data=is_same_data,
        calibrated=calibrated,
    )


def computed(asked: Asked) -> Tested:
    """Predict the run and compare; raises `InvalidError` for what takes too long at once."""
    return compared(asked, predicted_of(asked.document, asked.scenario, asked.run.observed))


def predicted_of(document: BackTestIn, scenario: Scenario, observed: Observed) -> Prediction:
    """What the scenario predicts of such a run; raises `InvalidError` for what takes too long."""
    inputs = columns_of(scenario)
    about = EvaluationIn(profile=document.profile, overrides=document.overrides)
    refuse_too_many_draws(inputs, about)
    refuse_long(inputs, about)
    hours = observed.num_steps * observed.step_mean_ms / MS_PER_HOUR
    return predict(scenario, hours=hours)


def compared(asked: Asked, predicted: Prediction) -> Tested:
    """Hold the run against what was predicted of it."""
    calibrated = asked.calibrated
    if calibrated is not None:
        error = figures_error_of(calibrated.findings, calibrated.paths, predicted)
        predicted = msgspec.structs.replace(predicted, figures_se_ms=error)
    comparison = compare(
        asked.run.observed, predicted, tolerance_fraction=asked.document.tolerance_fraction
    )
    warnings = list(_warnings(asked, predicted))
    if asked.is_same_data:
        # It says how well the model fits, not how well it predicts: nothing for a series.
        comparison = msgspec.structs.replace(comparison, departure=None)
    return Tested(asked=asked, predicted=predicted, comparison=comparison, warnings=warnings)


def run_of_calibration(row: Row[Any]) -> Run:
    """A stored calibration as a run; raises `InvalidError` where it tells no step times."""
    findings = msgspec.convert(row.findings, Findings)
    source = findings.source
    return Run(
        name=row.name,
        observed=observed_in(findings, msgspec.convert(row.options, CalibrationOptions), row.name),
        num_missing_ranks=max((source.world_size or 0) - source.num_ranks, 0),
        observed_at=row.created_at,
        source_key=f"calibration:{row.id}",
        run_key=_key_of(findings),
        calibration_id=row.id,
        has_exposed=findings.overlap is not None and findings.overlap.exposed_ms is not None,
    )


def _key_of(findings: Findings) -> str:
    """Of what the timings say, however they were sent: gzipped, or under another name."""
    step, source = findings.step_mean_ms, findings.source
    rows_of_steps = [
        [one.step, one.slowest_rank, one.slowest_ms, one.median_ms] for one in findings.gaps.steps
    ]
    said = [source.num_steps, source.num_ranks, None if step is None else step.value]
    return digest([said, rows_of_steps])


def _as_predicted(run: Run, scenario: Scenario) -> Observed:
    """Without the phases that are another quantity than the one that the scenario predicts.

    Timings tell a rank's own compute, of a pipeline the pass of all stages is predicted; they tell
    all of the loading and of the transfer, and what of it makes a step longer is predicted.
    """
    observed, overlap = run.observed, scenario.overlap
    hides = not isinstance(overlap, NoOverlap)
    return msgspec.structs.replace(
        observed,
        load_ms=None if overlap.load_prefetch else observed.load_ms,
        slowest_compute_ms=None if scenario.pipeline else observed.slowest_compute_ms,
        communication_ms=None if hides and not run.has_exposed else observed.communication_ms,
    )


def _calibrated(
    connection: Connection, actor: Actor, made_of: dict[str, Any], document: BackTestIn
) -> Calibrated | None:
    """The timings that a revision was made of; None where there are none, or none any more."""
    if "calibration_id" not in made_of:
        return None
    row = rows.get_calibration(connection, actor.team_id, UUID(made_of["calibration_id"]))
    if row is None:
        return None
    changed = tuple(document.overrides)
    paths = (path for path in made_of["paths"] if not any(map(_touches(path), changed)))
    return Calibrated(msgspec.convert(row.findings, Findings), frozenset(paths))


def _touches(path: str) -> Callable[[str], bool]:
    """Whether another path leads to this one, or on from it."""
    return lambda other: f"{other}.".startswith(f"{path}.") or f"{path}.".startswith(f"{other}.")


def observed_in(findings: Findings, options: CalibrationOptions, name: str) -> Observed:
    """What timings called `name` tell of a run; raises `InvalidError` without step times."""
    step = findings.step_mean_ms
    if step is None:
        detail = (
            f"the calibration {name!r} tells no step times: send the run, with step_mean_ms, "
            "instead"
        )
        fault = FieldFault(pointer="/calibration", code="no_step_times", detail=detail)
        raise InvalidError(detail, errors=[fault])
    overlap = findings.overlap
    # Of the rank that comes last: where no audit tells what is hidden, all of the transfer counts.
    exposed = overlap.exposed_ms if overlap and overlap.exposed_ms else findings.communication_ms
    slowest = [of_step.slowest_ms for of_step in findings.gaps.steps]
    return Observed(
        num_gpus=_num_gpus(options, findings),
        num_steps=findings.source.num_steps,
        step_mean_ms=step.value,
        step_mean_se_ms=_standard_error(step, findings.confidence),
        load_ms=None if findings.load_ms is None else findings.load_ms.value,
        slowest_compute_ms=math.fsum(slowest) / len(slowest) if slowest else None,
        communication_ms=None if exposed is None else exposed.value,
    )


def _calibration(connection: Connection, actor: Actor, calibration_id: UUID) -> Row[Any]:
    row = rows.get_calibration(connection, actor.team_id, calibration_id)
    if row is None:
        raise NotFoundError(f"there is no calibration {calibration_id}")
    return row


def _num_gpus(options: CalibrationOptions, findings: Findings) -> int:
    """Of the whole job: as was said, or as many as the files have ranks."""
    source = findings.source
    ranks = source.world_size or source.num_ranks
    return options.num_gpus or ranks * source.num_gpus_per_rank


def _standard_error(step: Estimate, confidence: float) -> float | None:
    """From the width of an interval that is about as wide as that of a normal law."""
    if step.low is None or step.high is None:
        return None
    return (step.high - step.low) / (2 * NormalDist().inv_cdf((1 + confidence) / 2))


def _run_of(run: RunIn, num_gpus: int, calibrated: Calibrated | None) -> Run:
    observed = Observed(
        num_gpus=num_gpus,
        num_steps=run.num_steps,
        step_mean_ms=run.step_mean_ms,
        step_sd_ms=run.step_sd_ms,
        step_p50_ms=run.step_p50_ms,
        step_p95_ms=run.step_p95_ms,
        step_autocorrelation=(
            calibrated.findings.gaps.slowest_autocorrelation if calibrated else None
        ),
        gpu_hours=run.gpu_hours,
        load_ms=run.load_ms,
        slowest_compute_ms=run.slowest_compute_ms,
        communication_ms=run.communication_ms,
    )
    faults = [*_faults(observed), *_moment_faults(run.observed_at)]
    if faults:
        raise InvalidError(faults[0].detail, errors=faults)
    return Run(
        name=run.name,
        observed=observed,
        observed_at=_in_utc(run.observed_at),
        source_key=f"run:{run.name}",
        run_key=f"run:{run.name}",
    )


def _in_utc(moment: datetime | None) -> datetime:
    """The moment in UTC; a zone can push it over the ends of the calendar."""
    if moment is None:
        return datetime.now(UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        detail = f"{moment} is beyond the calendar"
        raise InvalidError(
            detail, errors=[_fault("observed_at", "beyond_calendar", detail)]
        ) from None


def _moment_faults(moment: datetime | None) -> Iterator[FieldFault]:
    """A mistyped year would keep a run the last of the series, whatever comes after it."""
    now = datetime.now(UTC)
    if moment is not None and _in_utc(moment) > now + AHEAD:
        detail = (
            f"observed_at is {moment}, but it is {now:%Y-%m-%d %H:%M} UTC: it cannot have run yet"
        )
        yield _fault("observed_at", "in_the_future", detail)


def _faults(observed: Observed) -> Iterator[FieldFault]:
    """What cannot be true of one run."""
    mean = observed.step_mean_ms
    for name in ("load_ms", "slowest_compute_ms", "communication_ms"):
        phase = getattr(observed, name)
        if phase is not None and phase * ROUNDED > mean:
            detail = f"{name} is {phase}, but the whole step is {mean}: it waits for no part longer"
            yield _fault(name, "longer_than_step", detail)
    # Steps take no negative time, so that those beyond a quantile alone make up some of the mean.
    for name, beyond in (("step_p50_ms", 0.5), ("step_p95_ms", 0.05)):
        quantile = getattr(observed, name)
        if quantile is not None and quantile * beyond * ROUNDED > mean:
            detail = (
                f"{name} is {quantile}, but step_mean_ms is {mean}: the {beyond:.0%} of the steps "
                "that are longer would take more than all"
            )
            yield _fault(name, "beyond_mean", detail)
    low, high = observed.step_p50_ms, observed.step_p95_ms
    if low is not None and high is not None and low > high:
        detail = (
            f"step_p95_ms is {high}, but step_p50_ms is {low}: half of the steps cannot be shorter "
            "than more than 95 % of them"
        )
        yield _fault("step_p95_ms", "quantiles_fall", detail)
    of_steps = observed.num_gpus * observed.num_steps * mean / MS_PER_HOUR
    if observed.gpu_hours is not None and observed.gpu_hours < of_steps * ROUNDED:
        detail = (
            f"gpu_hours is {observed.gpu_hours}, but {observed.num_steps} steps of {mean} ms on "
            f"{observed.num_gpus} GPUs take {of_steps:.6g}"
        )
        yield _fault("gpu_hours", "fewer_than_steps", detail)


def _fault(field: str, code: str, detail: str) -> FieldFault:
    return FieldFault(pointer=f"/run/{field}", code=code, detail=detail)


def scenario_of(base: dict[str, Any], document: BackTestIn, num_gpus: int | None) -> Scenario:
    """The profile at the run's size; raises `InvalidError` with every fault."""
    overrides = document.overrides
    if num_gpus is not None:
        if "num_gpus" in overrides:
            detail = "num_gpus is that of the run: leave it out of overrides"
            fault = FieldFault(pointer="/overrides/num_gpus", code="given_twice", detail=detail)
            raise InvalidError(detail, errors=[fault])
        overrides = {**overrides, "num_gpus": num_gpus}
    try:
        return decode_scenario(apply_overrides(base, overrides))
    except InvalidScenario as error:
        about = EvaluationIn(profile=document.profile, overrides=document.overrides)
        raise refused(error.problems, about) from error


def _warnings(asked: Asked, predicted: Prediction) -> Iterator[Notice]:
    if asked.is_same_data:
        yield Notice(
            pointer="/calibration",
            code="same_data",
            detail="this revision was made of these very timings: how well it fits is told, not "
            "how well it predicts; a run that it has not seen would tell",
        )
    if asked.run.num_missing_ranks:
        yield Notice(
            pointer="/calibration",
            code="ranks_missing",
            detail=f"{asked.run.num_missing_ranks} ranks of the job are not in the timings: unless "
            "they tell the whole step, one of those may have been the slowest, and steps longer",
        )
    if asked.scenario.failures is not None:
        yield Notice(
            pointer="/profile",
            code="failures_left_out",
            detail="failures and checkpoints of the profile are in no step: the losses of both are "
            "those of steps alone",
        )
    if predicted.step_mean_p50_ms is None:
        yield Notice(
            pointer="/profile",
            code="spread_not_computed",
            detail="how far clusters of this profile differ is not known: a step beyond the "
            "tolerance tells nothing",
        )
