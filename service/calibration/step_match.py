"""Whether the proposed scenario makes the step that was timed, and how else to read the phases.

Of communication that is partly hidden, how much is hidden is mostly not known, and no overlap of
the model may be that of the job. What is known is what a step takes longer than its slowest rank's
loading and compute: the exposed part. Where the scenario with all of the transfer in it has another
step than the files, the exposed part alone is proposed instead. Where the slowest rank's loading
and compute are longer than the step, loading runs beside the step before.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from service.calibration.findings import (
    Estimate,
    OverlapAudit,
    ProposedValue,
    Remark,
    Unknown,
)
from service.calibration.fitted import Fitted
from service.calibration.options import CalibrationOptions
from service.calibration.phases import Phases
from service.calibration.timings import Timings
from service.model.columns import columns_of
from service.model.kernel import evaluate
from service.model.scenario import apply_overrides, decode_scenario

CLOSE: Final = 0.02
"""Off the step that was timed by less, the phases are read as they stand."""

MOST_OFF: Final = 0.05
"""As of a back-test; beyond it the remark."""


class Facts(Struct, frozen=True, kw_only=True):
    """All that a proposal is made of.

    `phases_beside` are the phases if loading runs beside the step before, where nobody said it.
    With `exposed_only` communication is its exposed part.
    """

    timings: Timings
    options: CalibrationOptions
    fitted: Fitted
    phases: Phases
    overlap: OverlapAudit | None
    phases_beside: Phases | None = None
    exposed_only: bool = False

    @property
    def gpus_per_rank(self) -> int:
        """GPUs that one rank stands for."""
        return max(self.timings.num_gpus_per_rank, self.options.tensor_parallel_size)

    @property
    def num_gpus(self) -> int:
        """Of the whole job."""
        if self.options.num_gpus is not None:
            return self.options.num_gpus
        ranks = max(self.timings.world_size or 0, self.timings.num_ranks)
        return ranks * self.gpus_per_rank

    @property
    def exposed_ms(self) -> Estimate | None:
        """What a step takes longer than its slowest rank; None where nothing tells it.

        In a pipeline bubbles would be in it.
        """
        rest = self.phases.rest_ms
        if rest is None or self.timings.stages is not None:
            return None
        return replace(rest, value=max(rest.value, 0.0))

    @property
    def load_is_beside(self) -> bool:
        """Whether loading is read as running beside the step before, though nobody said so."""
        return self.phases_beside is not None and self.phases is self.phases_beside


def readings_of(facts: Facts) -> Iterator[Facts]:
    """As the phases stand first, then as they may be read where that makes another step."""
    yield facts
    rest, beside = facts.phases.rest_ms, facts.phases_beside
    if beside is None or (rest is not None and rest.value > 0):
        yield replace(facts, exposed_only=True)
        return
    yield replace(facts, phases=beside)
    yield replace(facts, phases=beside, exposed_only=True)


def step_error(facts: Facts, values: Sequence[ProposedValue]) -> float | None:
    """The scenario's mean step by the files', less 1; None where no step was timed."""
    if facts.timings.step_ms is None or facts.phases.step_mean_ms is None:
        return None
    document = apply_overrides(
        {"num_gpus": facts.num_gpus, "compute_ms": 1.0},
        {value.path: value.value for value in values},
    )
    found = evaluate(
        columns_of(decode_scenario(document)),
        with_spread=False,
        with_causes=False,
        with_quantiles=False,
    )
    step_ms = float(found.columns["step_mean_ms"][0])
    return step_ms / facts.phases.step_mean_ms.value - 1


def of_exposed(facts: Facts) -> list[Unknown]:
    """What is not known where the exposed part stands for all of communication."""
    if not facts.exposed_only or facts.overlap is None:
        return []
    share = facts.overlap.hidden_share
    return [
        Unknown(
            path="overlap",
            reason=f"{share.low:.0%} to {share.high:.0%} of the transfer lie beside compute, and "
            "no overlap that the model would take of it makes the step that was timed: "
            "communication is the part that is not hidden",
            what_to_do="see the experiments of the overlap audit; for another size of the job, or "
            "other links, say overlap and communication together",
        )
    ]


def step_remarks(facts: Facts, values: Sequence[ProposedValue]) -> list[Remark]:
    """A remark where the scenario's step is not the one that was timed."""
    error = step_error(facts, values)
    if error is None or abs(error) <= MOST_OFF or facts.phases.step_mean_ms is None:
        return []
    seen_ms = facts.phases.step_mean_ms.value
    why = (
        "what no phase holds is missing, such as the optimizer, point-to-point transfers and gaps"
        if error < 0
        else "phases that run beside one another count one after the other"
    )
    return [
        Remark(
            code="step_not_explained",
            detail=f"the proposed scenario has a step of {seen_ms * (1 + error):.4g} ms, the files "
            f"one of {seen_ms:.4g} ms ({error:+.1%} off): {why}; back-tests against such runs part",
        )
    ]
