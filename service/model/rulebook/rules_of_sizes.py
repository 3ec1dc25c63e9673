"""Rules about how many GPUs there are of what."""

import numpy as np

from service.model.active import is_active, num_backup, num_removed
from service.model.columns import COUNT, SPEED, Columns
from service.model.fields import Scenario
from service.model.parts.synchronization import BackupWorkers
from service.model.rulebook.rule import Mask, Rule
from service.model.stage_sizes import has_pipeline, replica_gpus


def _too_many_slow_gpus(columns: Columns) -> Mask:
    broken: Mask = columns.num_nominal < columns["num_spare_gpus"]
    return broken


def _say_too_many(scenario: Scenario) -> tuple[str, str]:
    slow = sum(group.count for group in scenario.slow_groups)
    one = len(scenario.slow_groups) == 1
    return (
        "/slow_groups/0/count" if one else "/slow_groups",
        f"{slow} slow GPUs, but num_gpus is {scenario.num_gpus}",
    )


TOO_MANY_SLOW_GPUS = Rule("too_many_slow_gpus", _too_many_slow_gpus, _say_too_many, COUNT)


def _none_left(columns: Columns) -> Mask:
    broken: Mask = columns["num_evicted_gpus"] >= columns["num_gpus"]
    return broken


def _say_none_left(scenario: Scenario) -> tuple[str, str]:
    return (
        "/num_evicted_gpus",
        f"{scenario.num_evicted_gpus} GPUs evicted of {scenario.num_gpus}: none is left",
    )


def _no_whole_replicas(columns: Columns) -> Mask:
    size = columns["tensor_parallel_size"]
    # Whole replicas of a pipeline are a rule of their own, which says the nearest sizes.
    uneven = (columns["num_gpus"] % size != 0) & ~has_pipeline(columns)
    broken: Mask = uneven | (columns["gpus_per_node"] % size != 0)
    return broken


def _say_no_whole_replicas(scenario: Scenario) -> tuple[str, str]:
    size = scenario.tensor_parallel_size
    name, of = (
        ("num_gpus", scenario.num_gpus)
        if scenario.num_gpus % size
        else ("gpus_per_node", scenario.gpus_per_node)
    )
    return "/tensor_parallel_size", f"{size} does not divide {name}, which is {of}"


def _too_many_backup(columns: Columns) -> Mask:
    used = columns["num_gpus"] - columns["num_evicted_gpus"]
    ranks = np.where(has_pipeline(columns), used // replica_gpus(columns), used)
    backup = num_backup(columns)
    broken: Mask = (backup > 0) & (2 * backup > ranks)
    return broken


def _say_too_many_backup(scenario: Scenario) -> tuple[str, str]:
    ranks, name = scenario.num_gpus - scenario.num_evicted_gpus, "GPUs"
    if scenario.pipeline is not None:
        ranks //= scenario.pipeline.stages * scenario.tensor_parallel_size
        name = "replicas"
    return (
        "/synchronization/count",
        f"{_backup(scenario)} backup workers are more than half of {ranks} {name}",
    )


def _backup_of_blocks(columns: Columns) -> Mask:
    in_blocks = is_active(columns, "node") & (columns["gpus_per_node"] > 1)
    in_blocks |= is_active(columns, "replica") & (columns["tensor_parallel_size"] > 1)
    in_blocks |= num_removed(columns) > 0
    return (num_backup(columns) > 0) & in_blocks & ~has_pipeline(columns)


def _say_backup_of_blocks(scenario: Scenario) -> tuple[str, str]:
    return (
        "/synchronization",
        (
            f"{_backup(scenario)} backup workers together with spares, evicted GPUs, node or "
            "replica variability: the order of the last ranks is then not that of single GPUs"
        ),
    )


def _standing_by_in_replicas(columns: Columns) -> Mask:
    in_replicas = is_active(columns, "replica") & (columns["tensor_parallel_size"] > 1)
    return (num_removed(columns) > 0) & in_replicas & ~has_pipeline(columns)


def _say_standing_by_in_replicas(scenario: Scenario) -> tuple[str, str]:
    return (
        "/num_spare_gpus" if scenario.num_spare_gpus else "/num_evicted_gpus",
        (
            "single GPUs cannot stand by where replica variability is shared by the "
            f"{scenario.tensor_parallel_size} GPUs of a tensor-parallel group"
        ),
    )


def _standing_by_in_nodes(columns: Columns) -> Mask:
    in_nodes = is_active(columns, "node") & (columns["gpus_per_node"] > 1)
    slow = (columns[COUNT] > 0) & (columns[SPEED] < 1)
    return (num_removed(columns) > 0) & in_nodes & slow.any(axis=1) & ~has_pipeline(columns)


def _say_standing_by_in_nodes(scenario: Scenario) -> tuple[str, str]:
    return (
        "/num_spare_gpus" if scenario.num_spare_gpus else "/num_evicted_gpus",
        (
            "which GPUs stand by is not known well enough where slow_groups fall on nodes that "
            "vary; state the slow GPUs by persistent, or the nodes by slow_groups"
        ),
    )


STANDING_BY_IN_NODES = Rule(
    "standing_by_in_nodes", _standing_by_in_nodes, _say_standing_by_in_nodes
)


def _backup(scenario: Scenario) -> int:
    kind = scenario.synchronization
    return kind.count if isinstance(kind, BackupWorkers) else 0


SIZE_RULES = (
    Rule("too_many_evicted_gpus", _none_left, _say_none_left, "num_evicted_gpus"),
    Rule("no_whole_replicas", _no_whole_replicas, _say_no_whole_replicas, "tensor_parallel_size"),
    Rule(
        "too_many_backup_workers", _too_many_backup, _say_too_many_backup, "synchronization.count"
    ),
    Rule(
        "backup_workers_in_blocks",
        _backup_of_blocks,
        _say_backup_of_blocks,
        "synchronization.count",
    ),
    Rule(
        "standing_by_in_replicas",
        _standing_by_in_replicas,
        _say_standing_by_in_replicas,
        "variability.replica.kind",
    ),
)
