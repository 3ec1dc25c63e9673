"""What is known of one step's phases, for the question whether communication is hidden.

    T = L + C + A - h_A - h_L + w + u + g

of one rank: load L, compute C, the transfer A of its collectives, the parts h_A and h_L of transfer
and load that other work hides, waiting w for later ranks, whatever else takes time u (optimizer,
gaps), and the contention g by which compute gets longer beside communication and which is not in C.
All are at least 0. Source: `.github/calibration.md`, "Overlap audit".
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from service.calibration.findings import Confidence
from service.calibration.options import PositiveMs
from service.calibration.refusals import Fault, TimingsRefusedError

SURE: Final = 4.0
_ROUND_OFF: Final = 1e-9
"""Standard errors by which figures must contradict one another before they are refused."""

Ms = Annotated[float, Meta(ge=0, le=1e9)]
StandardErrorMs = Annotated[float, Meta(ge=0, le=1e9, description="Standard error of the mean.")]


class StepArithmetic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Means over steps of one rank's phases, best of the slowest rank, with their standard errors.

    Of the slowest rank, since it waits for nobody; a step lasts equally long on all.
    """

    load_ms: Annotated[Ms, Meta(description="Loading of a step's data.")] = 0.0
    compute_ms: Annotated[
        PositiveMs, Meta(description="The rank's own busy compute, forward and backward.")
    ]
    communication_ms: Annotated[
        PositiveMs, Meta(description="Communication per step, as timed within the step.")
    ]
    step_ms: Annotated[PositiveMs, Meta(description="Wall-clock time of a step.")]
    load_sd_ms: StandardErrorMs = 0.0
    compute_sd_ms: StandardErrorMs = 0.0
    communication_sd_ms: StandardErrorMs = 0.0
    step_sd_ms: StandardErrorMs = 0.0
    backward_fraction: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="Share of compute_ms beside which communication can run: the backward "
            "pass; 1 where weights are gathered all the time (FSDP).",
        ),
    ] = 2 / 3
    load_is_prefetched: (
        Annotated[
            bool,
            Meta(description="Whether loading runs beside the step before; default: not known."),
        ]
        | None
    ) = None
    communication_includes_wait: (
        Annotated[
            bool,
            Meta(
                description="Whether communication_ms may hold waiting for later ranks, as every "
                "timer around a collective does; false for that of the rank that comes last. "
                "Default: not known, so it may."
            ),
        ]
        | None
    ) = None
    no_communication_step_ms: (
        Annotated[
            PositiveMs,
            Meta(
                description="Step of a run without synchronisation (no_sync), of the slowest rank, "
                "so that no waiting lies in the difference."
            ),
        ]
        | None
    ) = None
    overlap_off_step_ms: (
        Annotated[PositiveMs, Meta(description="Step of a run with overlap switched off.")] | None
    ) = None
    isolated_communication_ms: (
        Annotated[
            PositiveMs,
            Meta(description="The same collectives alone, such as by nccl-tests, per step."),
        ]
        | None
    ) = None
    intervention_sd_ms: (
        Annotated[
            StandardErrorMs,
            Meta(description="Of the steps of those runs; default: step_sd_ms."),
        ]
        | None
    ) = None
    isolated_communication_sd_ms: StandardErrorMs = 0.0
    confidence: Confidence = 0.9

    @property
    def of_runs_sd_ms(self) -> float:
        """Standard error of the steps of runs in which something was changed."""
        return self.step_sd_ms if self.intervention_sd_ms is None else self.intervention_sd_ms

    @property
    def load_is_serial(self) -> bool:
        """Whether all of the load is known to stand in the step."""
        return self.load_is_prefetched is False or self.load_ms == 0


def refuse_contradictions(observed: StepArithmetic) -> None:
    """Refuse what no step can be; raises `TimingsRefusedError` with every reason."""
    faults = []
    step = observed.step_ms * (1 + _ROUND_OFF) + SURE * observed.step_sd_ms
    if observed.compute_ms - SURE * observed.compute_sd_ms > step:
        faults.append(
            _impossible(
                "compute_ms",
                f"compute_ms is {observed.compute_ms:g}, but the whole step takes step_ms "
                f"{observed.step_ms:g}: both must be of the same rank and steps",
            )
        )
    serial = observed.load_ms + observed.compute_ms
    noise = SURE * (observed.load_sd_ms + observed.compute_sd_ms)
    if observed.load_is_prefetched is False and not faults and serial - noise > step:
        faults.append(
            _impossible(
                "load_is_prefetched",
                f"load_ms and compute_ms add up to {serial:g}, but the step takes only step_ms "
                f"{observed.step_ms:g}: then loading runs beside the step, and is not serial",
            )
        )
    for name, is_longer, rule in (
        ("no_communication_step_ms", True, "a step without communication is not longer"),
        ("overlap_off_step_ms", False, "a step without overlap is not shorter"),
    ):
        value = getattr(observed, name)
        if value is None:
            continue
        # Runs differ by more than chance: a twentieth of a step is forgiven.
        beyond = (value - observed.step_ms) * (1 if is_longer else -1)
        forgiven = SURE * (observed.of_runs_sd_ms + observed.step_sd_ms) + observed.step_ms / 20
        if beyond > forgiven:
            faults.append(
                _impossible(name, f"{name} is {value:g} and step_ms {observed.step_ms:g}: {rule}")
            )
    if faults:
        raise TimingsRefusedError(*faults)


def _impossible(field: str, detail: str) -> Fault:
    return Fault(code="inconsistent_times", detail=detail, field=field)
