"""What each kind of remedy changes in a scenario: overrides, or why it does not apply."""

from collections.abc import Callable

import msgspec

from service.model.active import is_active, num_backup, occupancy, spikes_are_active
from service.model.columns import Columns
from service.model.failures import job_failures_per_day
from service.model.fields import Scenario
from service.model.remedy.communication_overrides import (
    Overrides,
    compress_gradients,
    delayed_update,
    hierarchical_collective,
    local_steps,
    overlap_buckets,
    prefetch_load,
)
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.pipeline_overrides import (
    change_schedule,
    fewer_stages,
    interleave_stages,
    more_microbatches,
    rebalance_stages,
)
from service.model.remedy.rebalancing import NotRebalancedError, rebalanced_ratio
from service.model.remedy.remedy_kinds import Kind, Remedy
from service.model.stage_sizes import has_pipeline, replica_gpus

NOTHING_LASTS = "no GPU is slow for good: no slow groups, no persistent and no node variability"


def overrides_of(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    """The values to put at paths of the scenario, whose `columns` are those of one point.

    Raises `DoesNotApplyError` where there is nothing that the remedy could remedy.
    """
    return _OVERRIDES[remedy.kind](scenario, columns, remedy)


def num_slow(scenario: Scenario) -> int:
    """GPUs of the slow groups that are slower than nominal."""
    return sum(group.count for group in scenario.slow_groups if group.speed_fraction < 1)


def _replace_slow(scenario: Scenario, _columns: Columns, _remedy: Remedy) -> Overrides:
    if not num_slow(scenario):
        raise DoesNotApplyError("there are no slow groups: no GPU to replace is named")
    return {"slow_groups": []}


def _evict(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    _require_lasting(scenario, columns)
    count, of_replica = remedy.count or 0, int(replica_gpus(columns)[0])
    if has_pipeline(columns)[0] and count % of_replica:
        below, above = (count // of_replica * of_replica, -(-count // of_replica) * of_replica)
        nearest = " or ".join(str(number) for number in (below, above) if number)
        raise DoesNotApplyError(
            f"replicas of {of_replica} GPUs stay whole: evict {nearest}, not {count}"
        )
    return {"num_evicted_gpus": scenario.num_evicted_gpus + (remedy.count or 0)}


def _spare(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    _require_lasting(scenario, columns)
    return {"num_spare_gpus": scenario.num_spare_gpus + (remedy.count or 0)}


def _detect(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    episodes = scenario.variability.episodes
    if episodes is None or not occupancy(columns)[0] > 0:
        raise DoesNotApplyError("there are no episodes that could be noticed sooner")
    hours = remedy.mean_hours
    if hours is None:
        hours = episodes.mean_hours * (remedy.hours_fraction or 0.0)
    elif hours >= episodes.mean_hours:
        raise DoesNotApplyError(
            f"{hours} hours are no faster than the scenario's {episodes.mean_hours}"
        )
    return {"variability.episodes.mean_hours": hours}


def _rebalance(scenario: Scenario, columns: Columns, _remedy: Remedy) -> Overrides:
    _require_lasting(scenario, columns)
    try:
        ratio = rebalanced_ratio(columns)
    except NotRebalancedError as error:
        raise DoesNotApplyError(str(error)) from error
    return {
        "slow_groups": [],
        "variability.persistent": None,
        "variability.node": None,
        **_scaled_times(scenario, ratio),
    }


def _scaled_times(scenario: Scenario, ratio: float) -> Overrides:
    """What says how long a GPU computes: of the job, or of stages of its pipeline."""
    found: Overrides = {}
    if scenario.compute_ms is not None:
        found["compute_ms"] = scenario.compute_ms * ratio
    pipeline = scenario.pipeline
    if pipeline is not None and pipeline.forward_ms is not None:
        for name in ("forward_ms", "backward_ms"):
            value = getattr(pipeline, name)
            listed = isinstance(value, tuple)
            scaled = [part * ratio for part in value] if listed else value * ratio
            found[f"pipeline.{name}"] = scaled
    return found


def _back_up(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    differ = num_slow(scenario) > 0 or bool(
        spikes_are_active(columns)[0] or occupancy(columns)[0] > 0
    )
    sources = ("transient", "persistent", "node", "replica", "per_op_jitter")
    if not differ and not any(is_active(columns, source)[0] for source in sources):
        raise DoesNotApplyError("all GPUs take equally long: there is no last one to leave behind")
    count = int(num_backup(columns)[0]) + (remedy.count or 0)
    return {"synchronization": {"kind": "backup_workers", "count": count}}


def _balance(scenario: Scenario, columns: Columns, remedy: Remedy) -> Overrides:
    replica = scenario.variability.replica
    if replica is None or not is_active(columns, "replica")[0]:
        raise DoesNotApplyError("there is no replica variability: the data are balanced")
    if not remedy.cv_fraction:
        return {"variability.replica": None}
    document = msgspec.to_builtins(replica)
    if "cv" not in document:
        raise DoesNotApplyError("a table of quantiles has no cv that a fraction could be left of")
    return {"variability.replica": {**document, "cv": document["cv"] * remedy.cv_fraction}}


def _checkpoint(scenario: Scenario, columns: Columns, _remedy: Remedy) -> Overrides:
    failures = scenario.failures
    if failures is None or not job_failures_per_day(columns)[0] > 0:
        raise DoesNotApplyError("there are no failures: no checkpoint is needed")
    if failures.checkpoint_interval_s == "optimal":
        raise DoesNotApplyError("the checkpoint interval is at its optimum already")
    return {"failures.checkpoint_interval_s": "optimal"}


def _require_lasting(scenario: Scenario, columns: Columns) -> None:
    lasting = any(is_active(columns, source)[0] for source in ("persistent", "node"))
    if not lasting and not num_slow(scenario):
        raise DoesNotApplyError(NOTHING_LASTS)


_OVERRIDES: dict[Kind, Callable[[Scenario, Columns, Remedy], Overrides]] = {
    "replace_slow_gpus": _replace_slow,
    "evict_worst": _evict,
    "hot_spares": _spare,
    "faster_detection": _detect,
    "rebalance_work": _rebalance,
    "backup_workers": _back_up,
    "balance_data": _balance,
    "checkpoint_optimal": _checkpoint,
    "overlap_buckets": overlap_buckets,
    "prefetch_load": prefetch_load,
    "local_steps": local_steps,
    "delayed_update": delayed_update,
    "hierarchical_collective": hierarchical_collective,
    "compress_gradients": compress_gradients,
    "more_microbatches": more_microbatches,
    "interleave_stages": interleave_stages,
    "change_schedule": change_schedule,
    "rebalance_stages": rebalance_stages,
    "fewer_stages": fewer_stages,
}
