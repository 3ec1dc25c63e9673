"""What is to be said of ranks that one speed each does not tell: by turns, drifting, of kinds."""

import numpy as np

from service.calibration.findings import Remark
from service.calibration.fitted import Fitted
from service.calibration.intermittent import drifts_of, levels_of
from service.calibration.kinds import (
    MIN_RANKS_FOR_MAD,
    MIN_RANKS_OF_KIND,
    MIN_SHARE_OF_NOMINAL,
    are_whole,
    kinds_of,
)
from service.calibration.observed import median_of, relative_to_stage, stage_groups
from service.calibration.timings import FloatArray, IntArray

MAX_NAMED = 20


def remarks_on_ranks(fitted: Fitted) -> list[Remark]:
    """Remarks with ranks, steps and factors."""
    relative = relative_to_stage(fitted.observed.compute_ms, fitted.observed.stages)
    by_turns, named = _by_turns(fitted, relative)
    return [*by_turns, *_drifting(fitted, relative, named), *_kinds(fitted, relative)]


def _by_turns(fitted: Fitted, relative: FloatArray) -> tuple[list[Remark], set[int]]:
    """Ranks apart that are slow in some of their steps, here and there; and those that changed."""
    observed = fitted.observed
    told = []
    named = set()
    for one in fitted.apart:
        levels = levels_of(relative[:, one.position])
        if one.kind == "changed" or levels is not None:
            named.add(one.position)
        is_part = one.change is not None and one.change.share == 1
        if levels is None or one.kind == "fast" or is_part:
            continue
        where = np.flatnonzero(levels.is_slow)
        known = int(np.isfinite(relative[:, one.position]).sum())
        outcome = (
            "no slow GPU is proposed"
            if one.kind == "changed"
            else "its mean is proposed as a slow GPU, though in some steps the wait is longer"
        )
        told.append(
            f"rank {observed.ranks[one.position]} takes {levels.slow / levels.fast:.3g} times as "
            f"long in {len(where)} of its {known} steps, from step {observed.steps[where[0]]} to "
            f"{observed.steps[where[-1]]}, as in the others ({outcome})"
        )
    if not told:
        return [], named
    detail = (
        f"{_listed(told)}: slow by turns, on these ranks only, so neither slow all the time nor "
        "spikes of every GPU; look for heat, power limits and other jobs on their hosts"
    )
    return [Remark(code="intermittent_ranks", detail=detail)], named


def _drifting(fitted: Fitted, relative: FloatArray, named: set[int]) -> list[Remark]:
    observed = fitted.observed
    told = [
        f"rank {observed.ranks[drift.position]} goes from {drift.start:.3g} to {drift.end:.3g} "
        f"times the compute of the rank in the middle"
        for drift in drifts_of(relative)
        if drift.position not in named
    ]
    if not told:
        return []
    return [
        Remark(
            code="drifting_ranks",
            detail=f"{_listed(told)}, from step {observed.steps[0]} to {observed.steps[-1]}: the "
            "proposal holds the mean, and a run that goes on has the end of it; look for heat and "
            "power limits",
        )
    ]


def _kinds(fitted: Fitted, relative: FloatArray) -> list[Remark]:
    """Several kinds of ranks in one stage, unless they are its nodes."""
    observed = fitted.observed
    remarks = []
    for ranks in stage_groups(observed.stages, len(observed.ranks)):
        if len(ranks) < MIN_RANKS_FOR_MAD:
            continue
        middle = median_of(relative[:, ranks], axis=0)
        kinds = [kind for kind in kinds_of(middle) if len(kind) >= MIN_RANKS_OF_KIND]
        if len(kinds) < 2 or _are_nodes(fitted, [ranks[kind] for kind in kinds]):
            continue
        levels = [float(np.median(middle[kind])) for kind in kinds]
        told = [
            f"{len(kind)} take {level / levels[0]:.3g} times as long"
            for kind, level in zip(kinds[1:], levels[1:], strict=True)
        ]
        where = "" if observed.stages is None else f" of stage {observed.stages[ranks[0]]}"
        remarks.append(
            Remark(
                code="kinds_of_ranks",
                detail=f"ranks{where} are of {len(kinds)} kinds, and none is between: "
                f"{_listed(told)} as the fastest {len(kinds[0])}; nominal is the fastest kind that "
                f"{MIN_SHARE_OF_NOMINAL:.0%} of the ranks are of, and kinds within 10 % of each "
                "other are taken as one law, which says more waiting than there is",
            )
        )
    return remarks


def _are_nodes(fitted: Fitted, kinds: list[IntArray]) -> bool:
    """Whether kinds are whole nodes, at most one of them several: the spread between nodes."""
    nodes = fitted.observed.nodes
    if nodes is None or not are_whole(kinds, nodes):
        return False
    return sum(len(np.unique(nodes[kind])) > 1 for kind in kinds) < 2


def _listed(told: list[str]) -> str:
    more = len(told) - MAX_NAMED
    return "; ".join(told[:MAX_NAMED]) + (f"; and {more} more" if more > 0 else "")
