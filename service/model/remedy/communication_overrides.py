"""Remedies for what communication and waiting cost: overrides, or why they do not apply."""

from typing import Any

import msgspec

from service.model.active import is_active, spikes_are_active
from service.model.columns import Columns
from service.model.exchange.messages import num_ranks
from service.model.exchange.serial import serial_of
from service.model.fields import Scenario
from service.model.parts.communication import (
    Auto,
    Fixed,
    Hierarchical,
    Link,
    Measured,
    Nccl,
    Ring,
    Transfer,
    Tree,
)
from service.model.parts.overlap import Buckets, Fsdp
from service.model.parts.synchronization import LocalSteps
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.remedy_kinds import Remedy
from service.model.waiting import hides_load, staleness

Overrides = dict[str, Any]
VARYING = ("transient", "replica", "per_op_jitter")
NO_COMMUNICATION = "there is no communication: GPUs exchange nothing"
MESSAGE = (
    "message_bytes",
    "parameters",
    "bytes_per_parameter",
    "compression_ratio",
    "compression_ms",
    "link",
    "slowest_link_fraction",
)
"""What a hierarchical exchange has in common with one in a ring or a tree."""


def overlap_buckets(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """Gradients travel in equal buckets during backward."""
    _require_communication(columns)
    now = scenario.overlap
    if isinstance(now, Fsdp):
        raise DoesNotApplyError("fsdp hides its gathers and scatters behind layers already")
    contention = remedy.contention_fraction
    if contention is None:
        contention = now.contention_fraction if isinstance(now, Buckets) else 0.0
    wanted = Buckets(
        num_buckets=remedy.num_buckets,
        contention_fraction=contention,
        load_prefetch=now.load_prefetch,
    )
    if wanted == now:
        raise DoesNotApplyError("gradients travel in so many buckets already")
    sizes = {"bucket_bytes": None, "bucket_shares": None}
    document = msgspec.to_builtins(wanted)
    return {"overlap": {name: document[name] for name in document if name not in sizes}}


def prefetch_load(scenario: Scenario, columns: Columns, _remedy: Remedy) -> Overrides:
    """The next step's data load while this step runs."""
    if not scenario.load_ms > 0:
        raise DoesNotApplyError("load_ms is 0: there is no loading to hide")
    if hides_load(columns)[0]:
        raise DoesNotApplyError("the next step's data load while this step runs already")
    return {"overlap.load_prefetch": True}


def local_steps(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """GPUs step by themselves, and all wait for an exchange once every so many steps."""
    now = scenario.synchronization
    steps = remedy.steps or 0
    if isinstance(now, LocalSteps) and now.steps >= steps:
        raise DoesNotApplyError(f"{now.steps} steps go between two exchanges already")
    _require_waiting(columns)
    document: Overrides = {"kind": "local_steps", "steps": steps}
    return {"synchronization": document | _penalty(scenario, remedy)}


def delayed_update(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """Gradients are applied one step later."""
    ahead = int(staleness(columns)[0])
    if ahead:
        raise DoesNotApplyError(f"a GPU may be {ahead} steps ahead already")
    _require_waiting(columns)
    document: Overrides = {"kind": "delayed_update"}
    delay = getattr(scenario.synchronization, "delay_ms", 0.0)
    if delay:
        document["delay_ms"] = delay
    return {"synchronization": document | _penalty(scenario, remedy)}


def hierarchical_collective(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """Gradients are exchanged within nodes first, then between them."""
    now = scenario.communication
    if isinstance(now, Fixed | Measured | Transfer):
        kind = now.__struct_config__.tag
        raise DoesNotApplyError(
            f"the communication is {kind}: it does not say what travels over which links"
        )
    _require_communication(columns)
    intra_link = remedy.intra_link or _intra_link(now)
    if intra_link is None:
        raise DoesNotApplyError("no intra_link: how GPUs of a node are linked is not known")
    if isinstance(now, Hierarchical) and intra_link == now.intra_link:
        raise DoesNotApplyError("gradients are exchanged within nodes first already")
    document = msgspec.to_builtins(now)
    kept = {name: document[name] for name in MESSAGE if document[name] is not None}
    hierarchical = {"kind": "hierarchical", **kept, "intra_link": msgspec.to_builtins(intra_link)}
    return {"communication": hierarchical}


def compress_gradients(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """Messages are smaller."""
    now = scenario.communication
    if isinstance(now, Fixed):
        raise DoesNotApplyError(
            "the communication is a fixed time: how much of it goes with the size of the message "
            "is not known"
        )
    _require_communication(columns)
    ratio = now.compression_ratio * (remedy.compression_ratio or 1.0)
    overrides: Overrides = {"communication.compression_ratio": ratio}
    if remedy.compression_ms is not None:
        overrides["communication.compression_ms"] = remedy.compression_ms
    return overrides


def _intra_link(now: Ring | Tree | Hierarchical | Auto | Nccl) -> Link | None:
    return None if isinstance(now, Ring | Tree) else now.intra_link


def _penalty(scenario: Scenario, remedy: Remedy) -> Overrides:
    """The user's own: of the request, else of the scenario; nothing where there is none."""
    extra = remedy.extra_steps_fraction
    if extra is None:
        extra = getattr(scenario.synchronization, "extra_steps_fraction", 0.0)
    return {"extra_steps_fraction": extra} if extra else {}


def _require_waiting(columns: Columns) -> None:
    """Something that waiting less often could take less of: GPUs that are slow for good stay so."""
    if not num_ranks(columns)[0] > 1:
        raise DoesNotApplyError("there is one replica alone: it waits for nobody")
    by_step = any(is_active(columns, source)[0] for source in VARYING)
    if not (by_step or spikes_are_active(columns)[0] or serial_of(columns).ms[0] > 0):
        raise DoesNotApplyError(
            "there is no communication, and nothing varies from step to step: waiting less often "
            "saves nothing"
        )


def _require_communication(columns: Columns) -> None:
    if not serial_of(columns).ms[0] > 0:
        raise DoesNotApplyError(NO_COMMUNICATION)
