"""What remedies of communication and waiting change in a scenario, and when they do not apply."""

from typing import Any

import numpy as np
import pytest

from service.model.columns import columns_of
from service.model.exchange.best_buckets import best_buckets
from service.model.fields import Scenario
from service.model.parts.communication import Link
from service.model.remedy.communication_overrides import NO_COMMUNICATION
from service.model.remedy.does_not_apply import DoesNotApplyError
from service.model.remedy.remedies import applicable, change_of
from service.model.remedy.remedy_kinds import Remedy, RemedyRequest
from service.model.scenario import apply_overrides, decode_scenario, full

LINK = {"latency_us": 10.0, "bandwidth_gigabytes_per_s": 50.0}
NODE = {"latency_us": 1.0, "bandwidth_gigabytes_per_s": 300.0}
INSIDE = Link(latency_us=1.0, bandwidth_gigabytes_per_s=300.0)
MESSAGE = {"parameters": 7e9, "compression_ratio": 2.0, "slowest_link_fraction": 0.5}
RING: dict[str, Any] = {"kind": "ring", "link": LINK, **MESSAGE}
FIXED = {"kind": "fixed", "allreduce_ms": 80}


def scenario(**changes: Any) -> Scenario:
    base = {"num_gpus": 64, "load_ms": 30, "compute_ms": 300, "communication": RING}
    return decode_scenario({**base, **changes})


def overrides(document: Scenario, remedy: Remedy) -> dict[str, Any]:
    """Those of the remedy; anybody who puts them on the scenario has the one it evaluates."""
    change = change_of(document, remedy)
    again = decode_scenario(apply_overrides(full(document), change.overrides))
    assert again == change.scenario != document
    return change.overrides


def reason(document: Scenario, remedy: Remedy) -> str:
    with pytest.raises(DoesNotApplyError) as caught:
        change_of(document, remedy)
    return str(caught.value)


def settings(document: Scenario, request: RemedyRequest) -> list[dict[str, Any] | None]:
    changes, left_out = applicable(document, [request])
    assert left_out == []
    return [change.remedy.setting for change in changes]


def test_buckets_keep_what_the_overlap_is_otherwise() -> None:
    hidden = scenario(overlap={"kind": "none", "load_prefetch": True})
    assert overrides(hidden, Remedy(kind="overlap_buckets", num_buckets=8)) == {
        "overlap": {
            "kind": "buckets",
            "num_buckets": 8,
            "contention_fraction": 0.0,
            "load_prefetch": True,
        }
    }
    busy = scenario(overlap={"kind": "buckets", "bucket_bytes": 1e9, "contention_fraction": 0.2})
    found = overrides(busy, Remedy(kind="overlap_buckets", num_buckets=8))["overlap"]
    assert (found["contention_fraction"], found["load_prefetch"]) == (0.2, False)
    other = Remedy(kind="overlap_buckets", num_buckets=8, contention_fraction=0.0)
    assert overrides(busy, other)["overlap"]["contention_fraction"] == 0
    eight = scenario(overlap={"kind": "buckets", "num_buckets": 8})
    assert "already" in reason(eight, Remedy(kind="overlap_buckets", num_buckets=8))
    sharded = scenario(overlap={"kind": "fsdp", "num_layers": 4})
    assert "fsdp" in reason(sharded, Remedy(kind="overlap_buckets", num_buckets=8))
    alone = scenario(num_gpus=1)
    assert reason(alone, Remedy(kind="overlap_buckets", num_buckets=8)) == NO_COMMUNICATION


def test_the_best_number_of_buckets_is_tried_where_latency_is_known() -> None:
    document = scenario()
    best = int(best_buckets(columns_of(document), np.ones(1)).num_buckets[0])
    assert best not in {8, 25}
    found = settings(document, RemedyRequest(kind="overlap_buckets"))
    assert found == [{"num_buckets": number} for number in sorted([8, 25, best])]
    found = settings(scenario(communication=FIXED), RemedyRequest(kind="overlap_buckets"))
    assert found == [{"num_buckets": 8}, {"num_buckets": 25}]
    # For the slowest kind of GPU, which has longer to hide them.
    half = scenario(slow_groups=[{"count": 1, "speed_fraction": 0.5}])
    slow = int(best_buckets(columns_of(document), np.full(1, 2.0)).num_buckets[0])
    assert slow != best
    found = settings(half, RemedyRequest(kind="overlap_buckets"))
    assert {"num_buckets": slow} in found
    asked = RemedyRequest(kind="overlap_buckets", num_buckets=(2,), contention_fraction=0.1)
    assert settings(document, asked) == [{"num_buckets": 2, "contention_fraction": 0.1}]


def test_loads_are_hidden_where_there_are_any() -> None:
    remedy = Remedy(kind="prefetch_load")
    assert overrides(scenario(), remedy) == {"overlap.load_prefetch": True}
    assert "load_ms is 0" in reason(scenario(load_ms=0), remedy)
    hidden = scenario(overlap={"kind": "none", "load_prefetch": True})
    assert "already" in reason(hidden, remedy)


def test_local_steps_block_and_keep_the_penalty_that_the_user_gave() -> None:
    remedy = Remedy(kind="local_steps", steps=10)
    assert overrides(scenario(), remedy) == {
        "synchronization": {"kind": "local_steps", "steps": 10}
    }
    local = {"kind": "local_steps", "steps": 5, "extra_steps_fraction": 0.03}
    fewer = scenario(synchronization=local)
    kept = {"kind": "local_steps", "steps": 10, "extra_steps_fraction": 0.03}
    assert overrides(fewer, remedy) == {"synchronization": kept}
    own = Remedy(kind="local_steps", steps=10, extra_steps_fraction=0.1)
    assert overrides(fewer, own)["synchronization"]["extra_steps_fraction"] == 0.1
    assert "5 steps go between" in reason(fewer, Remedy(kind="local_steps", steps=5))
    asked = RemedyRequest(kind="local_steps", steps=(7,), extra_steps_fraction=0.1)
    assert settings(scenario(), asked) == [{"steps": 7, "extra_steps_fraction": 0.1}]
    default = settings(scenario(), RemedyRequest(kind="local_steps"))
    assert default == [{"steps": steps} for steps in (10, 100, 500)]


def test_a_delayed_update_keeps_the_delay_and_the_penalty() -> None:
    remedy = Remedy(kind="delayed_update")
    assert overrides(scenario(), remedy) == {"synchronization": {"kind": "delayed_update"}}
    waits = {"kind": "bounded_staleness", "staleness": 0, "delay_ms": 7.0}
    document = scenario(synchronization={**waits, "extra_steps_fraction": 0.02})
    assert overrides(document, remedy)["synchronization"] == {
        "kind": "delayed_update",
        "delay_ms": 7.0,
        "extra_steps_fraction": 0.02,
    }
    ahead = scenario(synchronization={"kind": "bounded_staleness", "staleness": 3})
    assert "3 steps ahead already" in reason(ahead, remedy)
    asked = RemedyRequest(kind="delayed_update", extra_steps_fraction=0.1)
    assert settings(scenario(), asked) == [{"extra_steps_fraction": 0.1}]


@pytest.mark.parametrize(
    "remedy", [Remedy(kind="local_steps", steps=9), Remedy(kind="delayed_update")]
)
def test_waiting_less_often_needs_something_to_wait_for(remedy: Remedy) -> None:
    nothing = {"kind": "fixed", "allreduce_ms": 0}
    # Who is slow for good is waited for however rarely.
    lasting = {"persistent": {"kind": "normal", "cv": 0.05}}
    still = scenario(communication=nothing, variability=lasting)
    assert "nothing varies from step to step" in reason(still, remedy)
    for sources in (
        {"transient": {"kind": "normal", "cv": 0.05}},
        {"replica": {"kind": "normal", "cv": 0.05}},
        {"spikes": {"probability": 0.01, "slowdown": 2}},
    ):
        assert overrides(scenario(communication=nothing, variability=sources), remedy)
    single = scenario(num_gpus=8, tensor_parallel_size=8)
    assert "one replica alone" in reason(single, remedy)


def test_a_hierarchy_needs_the_links_inside_the_nodes() -> None:
    remedy = Remedy(kind="hierarchical_collective")
    assert "no intra_link" in reason(scenario(), remedy)
    for kind in ("auto", "nccl"):
        document = scenario(communication={**RING, "kind": kind, "intra_link": NODE})
        found = overrides(document, remedy)["communication"]
        kept = {name: found[name] for name in MESSAGE}
        assert (found["kind"], kept) == ("hierarchical", MESSAGE)
        assert {name: found["intra_link"][name] for name in NODE} == NODE
    given = Remedy(kind="hierarchical_collective", intra_link=INSIDE)
    found = overrides(scenario(), given)["communication"]
    assert found["intra_link"]["bandwidth_gigabytes_per_s"] == 300
    already = scenario(communication={**RING, "kind": "hierarchical", "intra_link": NODE})
    assert "already" in reason(already, remedy)
    faster = Link(preset="nvlink_5_2026_11")
    asked = RemedyRequest(kind="hierarchical_collective", intra_link=faster)
    assert settings(already, asked) == [{"intra_link": "nvlink_5_2026_11"}]
    asked = RemedyRequest(kind="hierarchical_collective", intra_link=INSIDE)
    (named,) = settings(scenario(), asked)
    assert named == {"intra_link": '{"latency_us":1.0,"bandwidth_gigabytes_per_s":300.0}'}
    assert reason(scenario(num_gpus=1), given) == NO_COMMUNICATION


@pytest.mark.parametrize(
    "communication",
    [
        FIXED,
        {"kind": "transfer", "message_bytes": 1e9, "link": LINK},
        {"kind": "measured", "message_bytes": 2, "sizes_bytes": [1, 4], "times_ms": [1, 2]},
    ],
)
def test_who_does_not_say_how_messages_travel_has_no_hierarchy(communication: Any) -> None:
    document = scenario(communication=communication)
    given = Remedy(kind="hierarchical_collective", intra_link=INSIDE)
    assert f"the communication is {communication['kind']}" in reason(document, given)


def test_a_hierarchy_of_broken_nodes_is_told_with_the_rule() -> None:
    document = scenario(num_gpus=12)
    asked = RemedyRequest(kind="hierarchical_collective", intra_link=INSIDE)
    changes, (left_out,) = applicable(document, [asked])
    assert changes == []
    assert "12 data-parallel ranks do not fill nodes of 8" in left_out.reason


def test_compression_comes_on_top_of_what_there_is() -> None:
    remedy = Remedy(kind="compress_gradients", compression_ratio=4)
    assert overrides(scenario(), remedy) == {"communication.compression_ratio": 8}
    costly = Remedy(kind="compress_gradients", compression_ratio=4, compression_ms=3)
    assert overrides(scenario(), costly) == {
        "communication.compression_ratio": 8,
        "communication.compression_ms": 3,
    }
    assert "not known" in reason(scenario(communication=FIXED), remedy)
    assert reason(scenario(num_gpus=1), remedy) == NO_COMMUNICATION
    default = settings(scenario(), RemedyRequest(kind="compress_gradients"))
    assert default == [{"compression_ratio": 2}, {"compression_ratio": 4}]
    asked = RemedyRequest(kind="compress_gradients", compression_ratios=(16.0,), compression_ms=1.0)
    found = settings(scenario(), asked)
    assert found == [{"compression_ratio": 16, "compression_ms": 1}]


def test_what_does_not_go_together_is_told_with_the_rule() -> None:
    local = {"kind": "local_steps", "steps": 8, "fragments": 2, "overlap_steps": 1}
    document = scenario(synchronization=local)
    changes, (left_out,) = applicable(document, [RemedyRequest(kind="overlap_buckets")])
    assert changes == []
    assert "buckets with local_steps are defined only where" in left_out.reason
