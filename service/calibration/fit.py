"""From timings to findings: the one door of the fit."""

import numpy as np

from service.calibration.autocorrelation import memory_of_series
from service.calibration.checks import Checked, checked, trend_of
from service.calibration.chosen_steps import with_steps
from service.calibration.components import components_of, plain_components
from service.calibration.findings import Findings, RankRow, Remark, Source
from service.calibration.fitted import Fitted, fitted_of, outliers_of
from service.calibration.gaps import gaps_of
from service.calibration.held_out import held_out_of
from service.calibration.kinds import MIN_EFFECT, kinds_apart
from service.calibration.magnitudes import check_magnitudes
from service.calibration.observed import Observed, mean_of, median_of, relative_to_stage
from service.calibration.options import CalibrationOptions
from service.calibration.overlap import audit_of
from service.calibration.phases import Phases, phases_of
from service.calibration.proposal import proposal_of
from service.calibration.rank_remarks import remarks_on_ranks
from service.calibration.short_cells import without_short_cells
from service.calibration.step_match import Facts, step_remarks
from service.calibration.steps_apart import left_out_of, steps_apart
from service.calibration.timings import Timings
from service.calibration.waiting_included import MAX_WITHIN, check_waiting

MAX_RANK_ROWS = 4_096
MAX_HELD_OUT_ERROR = 0.05
MAX_TAIL_ERROR = 0.1
MIN_TAIL_ERROR = 0.005
"""Of what the largest is above the mean by, and of a step: less is hardly seen in what is lost."""

LONG_TAIL_CV = 0.1
"""A Pareto law of more has moments of which a sample shows too little."""

LONG_MEMORY = 0.7
FEW_INDEPENDENT = 10

MAX_SLOWDOWN = 10.0
_BEYOND = "more than a slow GPU does: make sure of the unit, and that it is no number for no value"


def fit(timings: Timings, options: CalibrationOptions) -> Findings:
    """Fit one run; the same timings and options give the same findings to the last bit.

    Raises TimingsRefusedError with the numbers and the rule.
    """
    usable = checked(timings, options)
    check_magnitudes(usable.observed)
    timings, usable = _without_steps_apart(timings, options, usable)
    timings, usable = without_short_cells(timings, usable)
    observed, confidence = usable.observed, options.confidence
    fitted = fitted_of(observed, confidence)
    waiting = check_waiting(
        observed, includes_wait=timings.includes_wait, is_told_apart=_are_told_apart(fitted)
    )
    overlap = audit_of(timings, options)
    phases = phases_of(
        timings,
        usable.kept_steps,
        usable.kept_ranks,
        confidence,
        load_is_prefetched=options.load_is_prefetched,
    )
    beside = None
    if _may_be_beside(phases, timings, options):
        beside = phases_of(
            timings, usable.kept_steps, usable.kept_ranks, confidence, load_is_prefetched=True
        )
    facts = Facts(
        timings=timings,
        options=options,
        fitted=fitted,
        phases=phases,
        overlap=overlap,
        phases_beside=beside,
    )
    proposal = proposal_of(facts)
    held_out = held_out_of(observed, facts.gpus_per_rank, confidence)
    warnings = [*usable.warnings, *waiting, *_remarks(fitted)]
    warnings += step_remarks(facts, proposal.values)
    if phases.loading is not None:
        warnings += phases.loading.remarks
    if held_out is not None and abs(held_out.relative_error) > MAX_HELD_OUT_ERROR:
        warnings.append(
            Remark(
                code="held_out_off",
                detail=f"the proposed scenario predicts {held_out.predicted_max_to_mean_ratio:.4f} "
                "for slowest by mean of the held-out steps, observed is "
                f"{held_out.observed_max_to_mean_ratio.value:.4f}: more than "
                f"{MAX_HELD_OUT_ERROR:.0%} apart",
            )
        )
    return Findings(
        source=_source(timings, usable),
        confidence=confidence,
        compute_ms=fitted.compute_ms,
        load_ms=phases.load_ms,
        communication_ms=phases.communication_ms if overlap is None else overlap.communication_ms,
        step_mean_ms=phases.step_mean_ms,
        as_observed=plain_components(observed, confidence, are_alike=not fitted.apart),
        healthy=components_of(fitted.split),
        outliers=outliers_of(fitted, confidence),
        ranks=_rank_rows(observed),
        gaps=gaps_of(observed, confidence),
        autocorrelation=fitted.split.autocorrelation,
        family=fitted.family,
        spikes=fitted.spikes.found,
        held_out=held_out,
        overlap=overlap,
        proposal=proposal,
        warnings=warnings,
    )


def _may_be_beside(phases: Phases, timings: Timings, options: CalibrationOptions) -> bool:
    """Whether loading and compute do not fit into the step, and nobody said how they stand."""
    if timings.load_ms is None or options.load_is_prefetched is not None:
        return False
    return phases.rest_ms is not None and phases.rest_ms.value <= 0


def _without_steps_apart(
    timings: Timings, options: CalibrationOptions, usable: Checked
) -> tuple[Timings, Checked]:
    """Whole steps that stand apart are left out of everything, as skipped ones are."""
    apart = steps_apart(usable.observed)
    if not apart.rows.any():
        return timings, usable
    one, remark = left_out_of(usable.observed.steps, apart)
    numbers = usable.observed.steps[apart.rows]
    timings = with_steps(timings, ~np.isin(timings.steps, numbers))
    again = checked(timings, options)
    return timings, again._replace(
        left_out=[one, *again.left_out], warnings=[*again.warnings, remark]
    )


def _are_told_apart(fitted: Fitted) -> bool:
    """Whether ranks surely differ by more than timers do: then no barrier made them equal."""
    if any(one.kind != "fast" for one in fitted.apart):
        return True
    # Of stages likewise: behind a barrier they take alike.
    if np.nanmax(fitted.level_ms) > (1 + MIN_EFFECT) * np.nanmin(fitted.level_ms):
        return True
    lasting = (fitted.split.persistent, fitted.split.node)
    return any(part is not None and part.ends.low > MAX_WITHIN**2 for part in lasting)


def _source(timings: Timings, usable: Checked) -> Source:
    observed = usable.observed
    return Source(
        files=list(timings.files),
        num_steps=len(observed.steps),
        num_ranks=len(observed.ranks),
        num_gpus_per_rank=timings.num_gpus_per_rank,
        world_size=timings.world_size,
        first_step=int(observed.steps[0]),
        last_step=int(observed.steps[-1]),
        steps_have_gaps=bool((np.diff(observed.steps) > 1).any()),
        missing_cells=int((~np.isfinite(observed.compute_ms)).sum()),
        left_out=[*timings.left_out, *usable.left_out],
    )


def _rank_rows(observed: Observed) -> list[RankRow]:
    """Every rank's median, and its ratio to the other ranks of its stage; slowest first."""
    medians = median_of(observed.compute_ms, axis=0)
    ratios = median_of(relative_to_stage(observed.compute_ms, observed.stages), axis=0)
    counts = np.isfinite(observed.compute_ms).sum(axis=0)
    order = np.argsort(-ratios, kind="stable")[:MAX_RANK_ROWS]
    return [
        RankRow(
            rank=int(observed.ranks[position]),
            node=None if observed.nodes is None else int(observed.nodes[position]),
            stage=None if observed.stages is None else int(observed.stages[position]),
            compute_median_ms=float(medians[position]),
            to_median_ratio=float(ratios[position]),
            num_steps=int(counts[position]),
        )
        for position in order.tolist()
    ]


def _remarks(fitted: Fitted) -> list[Remark]:
    """What the fit itself saw."""
    remarks = trend_of(fitted.observed, fitted.split.cv("common"))
    remarks += _kinds_of_steps(fitted.observed)
    remarks += remarks_on_ranks(fitted)
    for kind, detail in (
        ("fast", "faster than all others; they wait, so the proposal takes them as nominal"),
        ("changed", "slow in a part of the steps only: left out of the spread, and no slow GPUs"),
    ):
        named = [
            int(fitted.observed.ranks[one.position]) for one in fitted.apart if one.kind == kind
        ]
        if named:
            listed = ", ".join(str(rank) for rank in named[:20])
            remarks.append(Remark(code=f"{kind}_ranks", detail=f"ranks {listed}: {detail}"))
    return [*remarks, *_far_off(fitted), *_tail(fitted), *_memory(fitted)]


def _kinds_of_steps(observed: Observed) -> list[Remark]:
    """Where steps are of two kinds or more, which no law of one peak tells."""
    of_steps = median_of(observed.compute_ms, axis=1)
    away, level = kinds_apart(of_steps)
    if not away.any():
        return []
    others = float(np.median(of_steps[away]))
    return [
        Remark(
            code="kinds_of_steps",
            detail=f"{away.sum()} of {len(of_steps)} steps take {others:.4g} ms on all ranks, the "
            f"others {level:.4g} ms, and none is between: steps of several kinds, as with gradient "
            "accumulation; their mean is right, the law of what all ranks share is not",
        )
    ]


def _far_off(fitted: Fitted) -> list[Remark]:
    """Slow or fast by more than a GPU is, though not by so much that it is refused."""
    remarks = [
        Remark(
            code="implausible_slowdown",
            detail=f"rank {fitted.observed.ranks[one.position]} takes {one.ratio:.3g} times as "
            f"long as the others, {_BEYOND}",
        )
        for one in fitted.apart
        if not 1 / MAX_SLOWDOWN <= one.ratio <= MAX_SLOWDOWN
    ]
    spikes = fitted.spikes.found
    if spikes is not None and spikes.slowdown.value > MAX_SLOWDOWN:
        remarks.append(
            Remark(
                code="implausible_slowdown",
                detail=f"{spikes.num_spikes} single cells take {spikes.slowdown.value:.3g} times "
                f"as long as others of their rank, {_BEYOND}",
            )
        )
    return remarks


def _tail(fitted: Fitted) -> list[Remark]:
    """Which way the proposal errs where no family predicts the maximum, or its tail is long."""
    family, cv = fitted.family, fitted.split.cv("transient")
    (chosen,) = (one for one in family.candidates if one.family == family.chosen)
    predicted = chosen.predicted_max_to_mean_ratio
    observed = predicted / (1 + chosen.relative_error)
    off = abs(predicted - observed)
    if family.is_ruled_out and off > max(MAX_TAIL_ERROR * (observed - 1), MIN_TAIL_ERROR):
        less = "less" if predicted < observed else "more"
        return [
            Remark(
                code="tail_not_caught",
                detail="no family predicts how far the largest of so many ranks is above the mean "
                f"in a step: {family.chosen}, the closest, says {predicted - 1:.2%}, seen is "
                f"{observed - 1:.2%}; the proposal predicts {less} waiting than there is, and is "
                "the further off the more GPUs there are",
            )
        ]
    if family.chosen == "pareto" and cv > LONG_TAIL_CV:
        return [
            Remark(
                code="long_tail",
                detail=f"the tail of what varies from step to step is so long that its spread "
                f"({cv:.2%}) rests on a few cells: rather too small, with an interval that is too "
                "narrow; more steps tell it better",
            )
        ]
    return []


def _memory(fitted: Fitted) -> list[Remark]:
    """Where steps are so alike that hardly any is independent of the others."""
    of_steps = memory_of_series(mean_of(fitted.cells, axis=1), fitted.observed.steps[fitted.told])
    num_steps = len(fitted.cells)
    for memory, of_what in (
        (fitted.split.memory, "what a rank varies by"),
        (of_steps, "what all share"),
    ):
        if memory.phi > LONG_MEMORY and num_steps < FEW_INDEPENDENT * memory.inflation:
            return [
                Remark(
                    code="few_independent_steps",
                    detail=f"{of_what} from step to step correlates by {memory.phi:.2f} with the "
                    f"step before, so {num_steps} steps tell as much as "
                    f"{num_steps / memory.inflation:.0f} independent ones: intervals of "
                    "transient, common and means over steps hold their truth less often than they "
                    "say; record more steps",
                )
            ]
    return []
