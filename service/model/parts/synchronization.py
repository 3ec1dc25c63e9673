"""How often GPUs wait for each other. Design page "The model", section 6."""

from typing import Annotated

from msgspec import Meta, Struct

from service.model.parts.bounds import TimeMs

MAX_BACKUP_WORKERS = 256
MAX_LOCAL_STEPS = 100_000
MAX_STALENESS = 1_000

ExtraSteps = Annotated[
    float,
    Meta(
        ge=0,
        le=1e3,
        description="Your own penalty: how many more steps the same progress takes, 0.05 is 5 %. "
        "None is built in, because none is universal.",
    ),
]


class EveryStep(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="every_step",
):
    """Every step ends when its slowest GPU is done."""


class BackupWorkers(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="backup_workers",
):
    """A step ends when all but `count` GPUs are done; the others abandon it."""

    count: Annotated[int, Meta(ge=0, le=MAX_BACKUP_WORKERS, description="GPUs not waited for.")]


class LocalSteps(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="local_steps",
):
    """GPUs step by themselves and exchange once every so many steps (DiLoCo, local SGD)."""

    steps: Annotated[
        int, Meta(ge=1, le=MAX_LOCAL_STEPS, description="Steps between two exchanges.")
    ]
    fragments: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_LOCAL_STEPS,
            description="Parts of the model that are exchanged one after the other, evenly spaced.",
        ),
    ] = 1
    overlap_steps: Annotated[
        int,
        Meta(
            ge=0,
            le=MAX_LOCAL_STEPS,
            description="Steps that go on while an exchange travels, before its result is needed.",
        ),
    ] = 0
    release_fraction: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of its last step's compute after which an exchange can begin.",
        ),
    ] = 1.0
    extra_steps_fraction: ExtraSteps = 0.0


class BoundedStaleness(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="bounded_staleness",
):
    """A step begins once everybody has done, and sent, the one `staleness` steps further back."""

    staleness: Annotated[int, Meta(ge=0, le=MAX_STALENESS, description="Steps; 0 is every_step.")]
    delay_ms: Annotated[
        TimeMs, Meta(description="Until an update is seen, beside its communication, ms.")
    ] = 0.0
    extra_steps_fraction: ExtraSteps = 0.0


class DelayedUpdate(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    tag_field="kind",
    tag="delayed_update",
):
    """Gradients are applied one step later: bounded staleness of 1."""

    delay_ms: Annotated[
        TimeMs, Meta(description="Until an update is seen, beside its communication, ms.")
    ] = 0.0
    extra_steps_fraction: ExtraSteps = 0.0


Synchronization = EveryStep | BackupWorkers | LocalSteps | BoundedStaleness | DelayedUpdate
