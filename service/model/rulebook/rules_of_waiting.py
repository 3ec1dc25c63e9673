"""Rules about overlap and synchronization, and what does not go together."""

from typing import Any

import numpy as np

from service.model.active import is_active, num_removed, occupancy
from service.model.columns import Columns
from service.model.exchange.messages import uncompressed_bytes
from service.model.fields import Scenario
from service.model.parts.overlap import MAX_BUCKETS, Buckets
from service.model.rulebook.rule import Mask, Rule
from service.model.waiting import (
    BACKUP_WORKERS,
    BUCKETS,
    FSDP,
    interval_steps,
    is_local,
    needs_recursion,
    staleness,
)

_SIZES = ("overlap.num_buckets", "overlap.bucket_bytes")


def _not_one_size(columns: Columns) -> Mask:
    given = sum((~np.isnan(columns[path])).astype(np.int64) for path in _SIZES)
    listed = np.array([shares is not None for shares in columns["overlap.bucket_shares"].tolist()])
    broken: Mask = (columns["overlap.kind"] == BUCKETS) & (given + listed != 1)
    return broken


def _say_not_one_size(scenario: Scenario) -> tuple[str, str]:
    overlap: Any = scenario.overlap
    names = ("num_buckets", "bucket_bytes", "bucket_shares")
    given = [name for name in names if getattr(overlap, name) is not None]
    return "/overlap", f"give one of {', '.join(names)}, here are {' and '.join(given) or 'none'}"


def _no_message(columns: Columns) -> Mask:
    broken: Mask = (columns["overlap.bucket_bytes"] > 0) & np.isnan(uncompressed_bytes(columns))
    return broken


def _say_no_message(_scenario: Scenario) -> tuple[str, str]:
    return (
        "/overlap/bucket_bytes",
        "how many buckets these are depends on the message, which communication does not tell",
    )


def _too_many_buckets(columns: Columns) -> Mask:
    broken: Mask = uncompressed_bytes(columns) > columns["overlap.bucket_bytes"] * MAX_BUCKETS
    return broken


def _say_too_many_buckets(scenario: Scenario) -> tuple[str, str]:
    overlap: Any = scenario.overlap
    return (
        "/overlap/bucket_bytes",
        f"buckets of {overlap.bucket_bytes:g} bytes are more than {MAX_BUCKETS} for this message",
    )


def _not_together(columns: Columns) -> Mask:
    overlap = columns["overlap.kind"]
    local, stale = is_local(columns), staleness(columns) > 0
    backup = columns["synchronization.kind"] == BACKUP_WORKERS
    sharded = (overlap == FSDP) & (local | stale | backup)
    parts = (columns["synchronization.fragments"] > 1) | (
        columns["synchronization.overlap_steps"] > 0
    )
    parts |= columns["synchronization.release_fraction"] < 1
    broken: Mask = sharded | ((overlap == BUCKETS) & (stale | (local & parts)))
    return broken


def _say_not_together(scenario: Scenario) -> tuple[str, str]:
    synchronization = type(scenario.synchronization).__struct_config__.tag
    if isinstance(scenario.overlap, Buckets):
        detail = (
            f"buckets with {synchronization} are defined only where all GPUs wait for the whole "
            "exchange: every step, or local steps without fragments, overlap_steps and "
            "release_fraction"
        )
        return "/overlap", detail
    detail = (
        f"fsdp with {synchronization}: sharded parameters are gathered from all GPUs every step"
    )
    return "/overlap", detail


def _uneven_fragments(columns: Columns) -> Mask:
    broken: Mask = columns["synchronization.steps"] % columns["synchronization.fragments"] > 0
    return broken


def _say_uneven_fragments(scenario: Scenario) -> tuple[str, str]:
    local: Any = scenario.synchronization
    below, above = (
        part * local.fragments
        for part in (local.steps // local.fragments, -(-local.steps // local.fragments))
    )
    nearest = f"{above}" if below == 0 else f"{below} or {above}"
    return (
        "/synchronization/fragments",
        f"{local.fragments} fragments do not divide {local.steps} steps; {nearest} would do",
    )


def _too_long_overlap(columns: Columns) -> Mask:
    broken: Mask = columns["synchronization.overlap_steps"] >= interval_steps(columns)
    return broken


def _say_too_long_overlap(scenario: Scenario) -> tuple[str, str]:
    local: Any = scenario.synchronization
    return (
        "/synchronization/overlap_steps",
        (
            f"{local.overlap_steps} overlapped steps, but every {local.steps / local.fragments:g} "
            "steps begins another exchange: one must have ended"
        ),
    )


def _standing_by_in_episodes(columns: Columns) -> Mask:
    lasting = is_active(columns, "persistent") | is_active(columns, "node")
    broken: Mask = needs_recursion(columns) & (num_removed(columns) > 0) & lasting
    return broken & (occupancy(columns) > 0)


def _say_standing_by_in_episodes(scenario: Scenario) -> tuple[str, str]:
    return (
        "/num_spare_gpus" if scenario.num_spare_gpus else "/num_evicted_gpus",
        (
            "where GPUs differ for good, some of them stand by and no barrier ends every step, "
            "which of them are in an episode is not known well enough; leave one of these out"
        ),
    )


WAITING_RULES = (
    Rule("not_one_bucket_size", _not_one_size, _say_not_one_size, "overlap.contention_fraction"),
    Rule("bucket_bytes_without_message", _no_message, _say_no_message, "overlap.bucket_bytes"),
    Rule("too_many_buckets", _too_many_buckets, _say_too_many_buckets, "overlap.bucket_bytes"),
    Rule("overlap_not_with_synchronization", _not_together, _say_not_together, None),
    Rule(
        "fragments_not_dividing_steps",
        _uneven_fragments,
        _say_uneven_fragments,
        "synchronization.fragments",
    ),
    Rule(
        "overlap_steps_too_many",
        _too_long_overlap,
        _say_too_long_overlap,
        "synchronization.overlap_steps",
    ),
    Rule(
        "standing_by_in_episodes",
        _standing_by_in_episodes,
        _say_standing_by_in_episodes,
        "variability.episodes.severity",
    ),
)
