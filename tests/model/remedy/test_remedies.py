"""Which remedies apply to a scenario, and what they change in it."""

from typing import Any, get_args

import pytest

from service.model.fields import Scenario
from service.model.remedy.communication_overrides import NO_COMMUNICATION
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.remedies import applicable, change_of
from service.model.remedy.remedy_kinds import KINDS, SETTINGS, Kind, Remedy, RemedyRequest
from service.model.remedy.remedy_overrides import NOTHING_LASTS
from service.model.results import REMEDIES
from service.model.scenario import apply_overrides, decode_scenario, full

STEP: dict[str, Any] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
}
SLOW = {"slow_groups": [{"count": 3, "speed_fraction": 0.7}]}
EPISODES = {"rate_per_gpu_day": 0.01, "mean_hours": 8.0, "severity": 1.5}
QUANTILES = [0.9, 0.95, 1.0, 1.05, 1.1]
FAILING = {"failures_per_1000_node_days": 6.5, "checkpoint_write_s": 30}


def scenario(**changes: Any) -> Scenario:
    return decode_scenario({**STEP, **changes})


def varying(**sources: Any) -> dict[str, Any]:
    return {"variability": sources}


def cv(value: float, kind: str = "lognormal") -> dict[str, Any]:
    return {"kind": kind, "cv": value}


def tried(document: Scenario, *requests: RemedyRequest) -> dict[str, list[Any]]:
    """The settings that apply, by kind."""
    found: dict[str, list[Any]] = {}
    for change in applicable(document, requests)[0]:
        setting = change.remedy.setting
        found.setdefault(change.remedy.kind, []).append(setting and next(iter(setting.values())))
    return found


def reasons(document: Scenario, *requests: RemedyRequest) -> dict[str, str]:
    return {each.kind: each.reason for each in applicable(document, requests)[1]}


def test_the_kinds_are_those_of_the_output_column() -> None:
    assert get_args(Kind) == KINDS == REMEDIES
    assert set(SETTINGS) <= set(KINDS)


ALONE = {"communication": {"kind": "fixed", "allreduce_ms": 0}, "load_ms": 0}
OF_WAITING = {
    "overlap_buckets": [8, 25],
    "prefetch_load": [None],
    "local_steps": [10, 100, 500],
    "delayed_update": [None],
}


def test_nothing_can_be_done_where_nothing_is_lost() -> None:
    found = reasons(scenario(**ALONE))
    assert set(found) == set(KINDS)
    assert found["evict_worst"] == found["hot_spares"] == found["rebalance_work"] == NOTHING_LASTS
    assert "all GPUs take equally long" in found["backup_workers"]
    assert "no slow groups" in found["replace_slow_gpus"]
    assert "no episodes" in found["faster_detection"]
    assert "balanced" in found["balance_data"]
    assert "no failures" in found["checkpoint_optimal"]
    assert found["overlap_buckets"] == NO_COMMUNICATION
    assert "load_ms is 0" in found["prefetch_load"]
    assert found["local_steps"] == found["delayed_update"]
    assert "no communication, and nothing varies" in found["local_steps"]
    assert "fixed" in found["hierarchical_collective"]
    assert "fixed time" in found["compress_gradients"]


def test_what_is_there_but_harmless_is_no_source() -> None:
    harmless = scenario(
        **ALONE,
        slow_groups=[{"count": 3, "speed_fraction": 1.0}],
        **varying(
            persistent=cv(0),
            replica=cv(0),
            episodes={**EPISODES, "severity": 1},
            common=cv(0.05),
            spikes={"probability": 0.1, "slowdown": 1},
        ),
        failures={"failures_per_1000_node_days": 0, "checkpoint_interval_s": 60},
    )
    assert set(reasons(harmless)) == set(KINDS)


def test_counts_of_slow_gpus_alone_stop_at_their_number() -> None:
    found = tried(scenario(**SLOW))
    assert found == {
        "replace_slow_gpus": [None],
        "evict_worst": [1, 2, 3],
        "hot_spares": [1, 2, 3],
        "rebalance_work": [None],
        "backup_workers": [1, 2, 3],
        **OF_WAITING,
    }


def test_counts_grow_by_powers_of_two_to_one_gpu_in_sixteen() -> None:
    powers = [1, 2, 4, 8, 16, 32, 64]
    lasting = scenario(num_gpus=16_384, **varying(persistent=cv(0.03)))
    assert tried(lasting)["evict_worst"] == tried(lasting)["hot_spares"] == powers
    assert tried(scenario(**varying(node=cv(0.03))))["evict_worst"] == [1, 2, 4]
    assert tried(scenario(num_gpus=2, **varying(node=cv(0.03))))["evict_worst"] == [1]
    by_step = scenario(**varying(transient=cv(0.03)))
    assert tried(by_step) == {"backup_workers": [1, 2, 4], **OF_WAITING}
    many = scenario(
        num_gpus=4096,
        slow_groups=[{"count": 300, "speed_fraction": 0.7}],
    )
    # More than may stand by at once, or are not waited for, are not tried.
    assert tried(many)["evict_worst"] == [*powers, 300]
    assert tried(many)["backup_workers"] == powers
    crowd = {"slow_groups": [{"count": 2000, "speed_fraction": 0.7}]}
    assert tried(scenario(num_gpus=4096, **crowd))["hot_spares"] == powers


def test_settings_are_taken_as_asked_for_and_once() -> None:
    document = scenario(
        **SLOW,
        **varying(episodes=EPISODES, replica=cv(0.04), transient=cv(0.02)),
        failures={**FAILING, "checkpoint_interval_s": 3600},
    )
    asked = [
        RemedyRequest(kind="evict_worst", counts=(5, 2, 5)),
        RemedyRequest(kind="faster_detection", mean_hours=(2.0, 0.0)),
        RemedyRequest(kind="balance_data", cv_fractions=(0.25,)),
        RemedyRequest(kind="checkpoint_optimal"),
        RemedyRequest(kind="checkpoint_optimal"),
    ]
    assert tried(document, *asked) == {
        "evict_worst": [5, 2],
        "faster_detection": [2.0, 0.0],
        "balance_data": [0.25],
        "checkpoint_optimal": [None],
    }
    defaults = tried(document)
    assert defaults["faster_detection"] == [0.5, 0.25]
    assert defaults["balance_data"] == [0.5, 0.0]


def test_each_remedy_is_the_overrides_that_it_names() -> None:
    document = scenario(
        **SLOW,
        num_spare_gpus=2,
        num_evicted_gpus=1,
        **varying(episodes=EPISODES, replica=cv(0.04), transient=cv(0.02)),
        failures={**FAILING, "checkpoint_interval_s": 3600},
    )
    changes, _ = applicable(document)
    for change in changes:
        again = decode_scenario(apply_overrides(full(document), change.overrides))
        assert again == change.scenario != document
    made = {
        (change.remedy.kind, tuple((change.remedy.setting or {}).values())): change.overrides
        for change in changes
    }
    assert made["replace_slow_gpus", ()] == {"slow_groups": []}
    assert made["evict_worst", (2,)] == {"num_evicted_gpus": 3}
    assert made["hot_spares", (3,)] == {"num_spare_gpus": 5}
    assert made["faster_detection", (0.25,)] == {"variability.episodes.mean_hours": 2.0}
    assert made["balance_data", (0.5,)] == {"variability.replica": cv(0.02)}
    assert made["balance_data", (0.0,)] == {"variability.replica": None}
    assert made["checkpoint_optimal", ()] == {"failures.checkpoint_interval_s": "optimal"}


def test_backup_workers_come_on_top_of_those_there_are() -> None:
    document = scenario(
        **varying(transient=cv(0.03)), synchronization={"kind": "backup_workers", "count": 2}
    )
    change = change_of(document, Remedy(kind="backup_workers", count=4))
    assert change.overrides == {"synchronization": {"kind": "backup_workers", "count": 6}}


def test_a_remedy_that_breaks_a_rule_is_left_out_with_the_rule() -> None:
    small = scenario(num_gpus=4, slow_groups=[{"count": 3, "speed_fraction": 0.5}])
    changes, left_out = applicable(
        small,
        [
            RemedyRequest(kind="backup_workers", counts=(1, 3)),
            RemedyRequest(kind="evict_worst", counts=(4,)),
        ],
    )
    assert [change.remedy.setting for change in changes] == [{"count": 1}]
    told = {(each.kind, (each.setting or {}).get("count")): each.reason for each in left_out}
    assert told["backup_workers", 3] == "3 backup workers are more than half of 4 GPUs"
    assert told["evict_worst", 4] == "4 GPUs evicted of 4: none is left"


def test_a_remedy_beyond_the_bounds_of_a_field_is_left_out() -> None:
    document = scenario(**SLOW, num_spare_gpus=1000)
    (left_out,) = applicable(document, [RemedyRequest(kind="hot_spares", counts=(100,))])[1]
    assert left_out.setting == {"count": 100}
    assert "1024" in left_out.reason


def test_a_reason_that_holds_for_all_settings_is_said_once() -> None:
    left_out = applicable(scenario(), [RemedyRequest(kind="hot_spares", counts=(1, 2))])[1]
    assert [(each.kind, each.setting) for each in left_out] == [("hot_spares", None)]


def test_what_cannot_be_shared_out_is_left_out_with_the_reason() -> None:
    few = scenario(num_gpus=2, **varying(persistent=cv(0.5)))
    assert "relative variance" in reasons(few)["rebalance_work"]


def test_a_table_of_quantiles_can_only_be_balanced_whole() -> None:
    table = {"kind": "empirical", "quantiles": QUANTILES}
    document = scenario(num_gpus=4, **varying(replica=table))
    changes, (left_out,) = applicable(document, [RemedyRequest(kind="balance_data")])
    assert [change.overrides for change in changes] == [{"variability.replica": None}]
    assert "no cv" in left_out.reason
    assert left_out.setting == {"cv_fraction": 0.5}


def test_slower_detection_and_what_is_optimal_already_are_no_remedies() -> None:
    document = scenario(**varying(episodes=EPISODES), failures=FAILING)
    asked = RemedyRequest(kind="faster_detection", mean_hours=(8.0,))
    assert "no faster" in reasons(document, asked)["faster_detection"]
    assert "optimum already" in reasons(document)["checkpoint_optimal"]


def test_a_remedy_is_refused_where_there_is_nothing_to_remedy() -> None:
    with pytest.raises(DoesNotApplyError, match="no slow groups"):
        change_of(scenario(), Remedy(kind="replace_slow_gpus"))


def test_a_request_knows_the_settings_that_it_gives() -> None:
    assert RemedyRequest(kind="prefetch_load").given == ()
    request = RemedyRequest(kind="local_steps", steps=(10,), extra_steps_fraction=0.0)
    assert request.given == ("steps", "extra_steps_fraction")
    # Every setting that a kind reads is one of a request.
    settings = {name for names in SETTINGS.values() for name in names}
    assert settings == set(RemedyRequest.__struct_fields__) - {"kind"}
