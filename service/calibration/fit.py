"""From timings to findings: the one door of the fit."""

import numpy as np

from service.calibration.checks import Checked, checked, trend_of
from service.calibration.components import components_of, plain_components
from service.calibration.findings import Findings, RankRow, Remark, Source
from service.calibration.fitted import Fitted, fitted_of, outliers_of
from service.calibration.gaps import gaps_of
from service.calibration.held_out import held_out_of
from service.calibration.observed import Observed, median_of, relative_to_stage
from service.calibration.options import CalibrationOptions
from service.calibration.overlap import audit_of
from service.calibration.phases import phases_of
from service.calibration.proposal import Facts, proposal_of
from service.calibration.timings import Timings

MAX_RANK_ROWS = 4_096
MAX_HELD_OUT_ERROR = 0.05


def fit(timings: Timings, options: CalibrationOptions) -> Findings:
    """Fit one run; the same timings and options give the same findings to the last bit.

    Raises TimingsRefusedError with the numbers and the rule.
    """
    usable = checked(timings, options)
    observed, confidence = usable.observed, options.confidence
    fitted = fitted_of(observed, confidence)
    overlap = audit_of(timings, options)
    phases = phases_of(
        timings,
        usable.kept_steps,
        usable.kept_ranks,
        confidence,
        load_is_prefetched=options.load_is_prefetched,
    )
    facts = Facts(timings=timings, options=options, fitted=fitted, phases=phases, overlap=overlap)
    held_out = held_out_of(observed, facts.gpus_per_rank, confidence)
    warnings = [*usable.warnings, *_remarks(fitted)]
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
        proposal=proposal_of(facts),
        warnings=warnings,
    )


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
    return remarks
