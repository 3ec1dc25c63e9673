"""What was found as paths and values of a scenario, and what was not as a list of what to do."""

from operator import itemgetter
from typing import Any

import numpy as np

from service.calibration.findings import Estimate, Proposal, ProposedValue, Unknown
from service.calibration.held_out import GROUPS_TO_TRY, usual_node_size
from service.calibration.job_size import job_size
from service.calibration.piped import pipeline_values
from service.calibration.refusals import refused
from service.calibration.step_match import CLOSE, Facts, of_exposed, readings_of, step_error
from service.calibration.unknowns import unknowns_of
from service.calibration.variability import Shape, rounded, slow_kinds, slow_ratios, sources_of
from service.model.problems import InvalidScenario, Problem
from service.model.scenario import apply_overrides, decode_scenario

SHARED = ("variability.node", "variability.replica")


def proposal_of(facts: Facts) -> Proposal:
    """Values that make a valid scenario when they are put into a bare one.

    Of the ways to read the phases the first one that makes the step that was timed, else the one
    that comes closest. A value that the model refuses is left out, and listed with the model's
    reason. Raises TimingsRefusedError where not even size and compute make a scenario.
    """
    found: list[tuple[float, Proposal]] = []
    for reading in readings_of(facts):
        values, left_out = _proposed(reading)
        proposal = _made(reading, values, [*left_out, *of_exposed(reading)])
        # A single reading need not be tried, which of a pipeline takes long.
        error = 0.0 if facts.exposed_ms is None else abs(step_error(reading, values) or 0.0)
        found.append((error, proposal))
        if error <= CLOSE:
            break
    return min(found, key=itemgetter(0))[1]


def _proposed(facts: Facts) -> tuple[list[ProposedValue], list[Unknown]]:
    """The values, and those that the model refuses."""
    left_out: list[Unknown] = []
    for is_piped in (True, False):
        problems: list[Problem] = []
        for max_groups in GROUPS_TO_TRY:
            values = _values(facts, is_piped=is_piped, max_groups=max_groups)
            if is_piped and not any(value.path == "pipeline" for value in values):
                break
            problems = problems_of(facts.num_gpus, values)
            if not problems:
                return values, left_out
            if not any(problem.pointer.startswith("/slow_groups") for problem in problems):
                break
        if is_piped and problems:
            left_out.append(_refused_part("pipeline", problems[0]))
    full = _values(facts, is_piped=False, max_groups=GROUPS_TO_TRY[0])
    values, dropped = _settled(facts.num_gpus, full)
    return values, [*left_out, *dropped]


def _made(facts: Facts, values: list[ProposedValue], left_out: list[Unknown]) -> Proposal:
    told = {value.path for value in values} | {unknown.path for unknown in left_out}
    if facts.load_is_beside:
        told.add("overlap.load_prefetch")
    found = unknowns_of(facts.timings, facts.options, facts.overlap, told)
    if facts.phases.loading is not None:
        found = [*facts.phases.loading.unknown, *found]
    return Proposal(
        overrides={value.path: value.value for value in values},
        values=values,
        unknown=[*left_out, *found],
    )


def bare_scenario(num_gpus: int, compute_ms: float) -> dict[str, Any]:
    """The least that is a scenario."""
    return {"num_gpus": num_gpus, "compute_ms": compute_ms}


def problems_of(num_gpus: int, values: list[ProposedValue]) -> list[Problem]:
    """What the model says of a bare scenario with these values put in; nothing where valid."""
    overrides = {value.path: value.value for value in values}
    try:
        decode_scenario(apply_overrides(bare_scenario(num_gpus, 1.0), overrides))
    except InvalidScenario as error:
        return list(error.problems)
    return []


def _settled(
    num_gpus: int, values: list[ProposedValue]
) -> tuple[list[ProposedValue], list[Unknown]]:
    """Without the values that the model refuses."""
    left_out: list[Unknown] = []
    while problems := problems_of(num_gpus, values):
        place = problems[0].pointer.strip("/").replace("/", ".")
        if problems[0].code == "too_many_compositions":
            # Too many kinds of GPUs share a draw: the slow ones matter more than the sharing.
            place = next(path for path in SHARED if any(value.path == path for value in values))
        guilty = [
            value
            for value in values
            if place == value.path
            or place.startswith(f"{value.path}.")
            or value.path.startswith(f"{place}.")
        ]
        if not guilty or guilty[-1].path in ("num_gpus", "compute_ms"):
            raise refused(
                "not_a_scenario",
                f"what was found makes no scenario: {problems[0].detail}",
            )
        values = [value for value in values if value is not guilty[-1]]
        left_out.append(_refused_part(guilty[-1].path, problems[0]))
    return values, left_out


def _refused_part(path: str, problem: Problem) -> Unknown:
    return Unknown(
        path=path,
        reason=f"found, but the model refuses it: {problem.detail}",
        what_to_do="say it by hand, or ask for a part of the job that the model takes",
    )


def _values(facts: Facts, *, is_piped: bool, max_groups: int) -> list[ProposedValue]:
    """All values, in the order in which they are read."""
    fitted, size = facts.fitted, facts.gpus_per_rank
    shape = Shape(gpus_per_rank=size, is_piped=is_piped, max_groups=max_groups)
    sources = sources_of(fitted, shape)
    piped = None
    if is_piped:
        piped = pipeline_values(facts.timings, fitted, sources.group_to_gpu)
        if piped is None:
            return []
    values = [
        ProposedValue(
            path="num_gpus",
            value=facts.num_gpus,
            low=None,
            high=None,
            reason=_size_reason(facts),
        ),
        _compute(fitted.compute_ms, sources.group_to_gpu),
    ]
    if piped is not None:
        # With the stages' times compute is their mean, to the last digit.
        values[1] = piped[0]
        values += piped[1:]
    values += _phases(facts)
    values += _groups(facts, shape, sources.group_to_gpu)
    values += sources.values
    if size > 1:
        values.append(
            ProposedValue(
                path="tensor_parallel_size",
                value=size,
                low=None,
                high=None,
                reason="GPUs that one rank of the files stands for",
            )
        )
    if fitted.observed.nodes is not None:
        values.append(
            ProposedValue(
                path="gpus_per_node",
                value=usual_node_size(fitted.observed.nodes) * size,
                low=None,
                high=None,
                reason="ranks of most nodes, times the GPUs of a rank",
            )
        )
    return values


def _size_reason(facts: Facts) -> str:
    if facts.options.num_gpus is not None:
        return "as said beside the files"
    size = f" of {facts.gpus_per_rank} GPUs" if facts.gpus_per_rank > 1 else ""
    world = facts.timings.world_size
    if world is not None and world > facts.timings.num_ranks:
        return f"{world} ranks{size} by the files, of which {facts.timings.num_ranks} were timed"
    return f"{facts.timings.num_ranks} ranks{size}"


def _compute(found: Estimate, group_to_gpu: float) -> ProposedValue:
    reason = "mean of the ranks that do not stand apart"
    if group_to_gpu > 1:
        reason += f", less what the slowest GPU of a group adds (factor {group_to_gpu:.4f})"
    return ProposedValue(
        path="compute_ms",
        value=rounded(found.value / group_to_gpu),
        low=None if found.low is None else rounded(found.low / group_to_gpu),
        high=None if found.high is None else rounded(found.high / group_to_gpu),
        reason=reason,
    )


def _phases(facts: Facts) -> list[ProposedValue]:
    values = []
    loading = facts.phases.loading
    if loading is not None:
        values.append(
            ProposedValue(
                path="load_ms",
                value=rounded(loading.load_ms.value),
                low=loading.load_ms.low,
                high=loading.load_ms.high,
                reason=loading.reason,
            )
        )
    values += _overlap(facts)
    communication, reason = _communication(facts)
    if communication is not None:
        values.append(
            ProposedValue(
                path="communication",
                value={"kind": "fixed", "allreduce_ms": rounded(communication.value)},
                low=communication.low,
                high=communication.high,
                reason=reason,
            )
        )
    return values


def _communication(facts: Facts) -> tuple[Estimate | None, str]:
    """Of the audit, else of a column, else what is left of a step that was timed."""
    if facts.exposed_only:
        size = job_size(facts.timings, facts.options)
        unseen = ""
        if size.num_ranks > facts.timings.num_ranks:
            unseen = " and the wait for slower ranks that were not timed"
        return facts.exposed_ms, (
            "what a step takes longer than its slowest rank's loading and compute: the part of "
            f"communication that is not hidden, what no phase holds{unseen}"
        )
    audited = None if facts.overlap is None else facts.overlap.communication_ms
    found = facts.phases.communication_ms if audited is None else audited
    if found is not None:
        return found, (
            "of the rank that waits least in each step (the last to arrive), mean over steps: "
            "transfer without the wait"
        )
    rest = facts.exposed_ms
    if rest is None or rest.value <= 0:
        return None, ""
    return rest, (
        "no communication was timed: what a step takes longer than its slowest rank's loading and "
        "compute, so communication that is not hidden, optimizer and gaps alike"
    )


def _overlap(facts: Facts) -> list[ProposedValue]:
    prefetch = facts.options.load_is_prefetched
    audit = None if facts.exposed_only else facts.overlap
    document: dict[str, Any] = {"kind": "none"}
    reason = "loading as said beside the files"
    if facts.load_is_beside:
        prefetch = True
        reason = (
            "a step is shorter than its slowest rank's loading and compute, so loading runs beside "
            "the step before"
        )
    if audit is not None and audit.verdict == "overlaps" and audit.num_collectives_per_step:
        buckets = int(np.clip(round(audit.num_collectives_per_step), 1, 65_536))
        document = {"kind": "buckets", "num_buckets": buckets}
        reason = f"{buckets} collectives a step that overlap with compute by the audit"
    elif audit is not None and audit.verdict == "does_not_overlap":
        reason = "communication does not overlap with compute by the audit"
    elif prefetch is None:
        return []
    if prefetch is not None:
        document["load_prefetch"] = prefetch
    return [ProposedValue(path="overlap", value=document, low=None, high=None, reason=reason)]


def _groups(facts: Facts, shape: Shape, group_to_gpu: float) -> list[ProposedValue]:
    ratios = slow_ratios(facts.fitted, with_stages=shape.is_piped)
    kinds = slow_kinds(ratios, shape.max_groups, group_to_gpu) if ratios else []
    documents = []
    for kind in kinds:
        document: dict[str, Any] = {"count": kind.count, "speed_fraction": kind.speed_fraction}
        if kind.stage is not None:
            document["placement"] = kind.stage
        documents.append(document)
    reason = "no rank is slow all the time"
    if kinds:
        named = ", ".join(
            str(facts.fitted.observed.ranks[one.position])
            for one in facts.fitted.apart[:20]
            if one.kind == "slow"
        )
        reason = f"ranks that are slow all the time: {named}"
        if shape.gpus_per_rank > 1:
            reason += f"; one GPU counted for each, of {shape.gpus_per_rank} in lockstep"
    return [ProposedValue(path="slow_groups", value=documents, low=None, high=None, reason=reason)]
