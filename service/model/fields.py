"""The fields of the input: one struct is request body, stored JSON and kernel input.

Fields, units and bounds: design page "The model", section 1. Times are milliseconds.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from service.model.distributions import Distribution

# Far above any real step; keeps every product and sum of the kernel finite.
MAX_TIME_MS = 1e12
# RFC 8785 digests take whole numbers up to 2^53 - 1, as JSON readers everywhere do.
MAX_SEED = 2**53 - 1
MAX_SLOW_GROUPS = 16
# So that 1 / speed, and with it every time, stays finite, and so does what is divided by a step.
MIN_SPEED = 1e-6
MIN_COMPUTE_MS = 1e-9

TimeMs = Annotated[float, Meta(ge=0, le=MAX_TIME_MS)]


class Fixed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Communication that takes the same time at every cluster size."""

    # Not msgspec's tag: that is demanded only where there is another kind to tell apart.
    kind: Literal["fixed"]
    allreduce_ms: Annotated[TimeMs, Meta(description="All-reduce time per step, ms.")] = 0.0


class SlowGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GPUs that are persistently slow, all by the same factor."""

    count: Annotated[int, Meta(ge=1, le=10_000_000, description="How many GPUs.")]
    speed_fraction: Annotated[
        float, Meta(ge=MIN_SPEED, le=1, description="Speed of each, as a fraction of nominal.")
    ]


class Variability(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What makes compute times differ, beside slow groups."""

    transient: Annotated[
        Distribution | None,
        Meta(description="Drawn for every GPU and step, independently; mean 1."),
    ] = None


class Scenario(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A synchronous training job: what a step takes and what may slow it down."""

    num_gpus: Annotated[int, Meta(ge=1, le=10_000_000, description="GPUs held, all paid for.")]
    compute_ms: Annotated[
        float,
        Meta(
            ge=MIN_COMPUTE_MS, le=MAX_TIME_MS, description="Nominal compute per GPU and step, ms."
        ),
    ]
    load_ms: Annotated[TimeMs, Meta(description="Data loading before compute, per step, ms.")] = 0.0
    communication: Fixed = Fixed(kind="fixed")
    slow_groups: Annotated[tuple[SlowGroup, ...], Meta(max_length=MAX_SLOW_GROUPS)] = ()
    variability: Variability = Variability()
    period_days: Annotated[int, Meta(ge=1, le=3660, description="The loss window, days.")] = 30
    seed: Annotated[
        int, Meta(ge=0, le=MAX_SEED, description="Of the single reproducible draw.")
    ] = 0
