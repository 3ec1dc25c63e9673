"""The trace is read as a viewer reads it: by the Trace Event Format, from its JSON."""

import itertools
import json
from collections import defaultdict
from typing import Any

import msgspec
import pytest

from service.model.timeline_documents import Timeline
from service.reports.chrome_trace import chrome_trace, trace_file_name
from tests.reports.timelines import shown

# Fields that the Trace Event Format demands of complete and of metadata events.
NEEDED = {"X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}}
NEEDED["M"] = {"name", "ph", "pid", "tid", "args"}
LABELS = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def read(timeline: Timeline) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(msgspec.json.encode(chrome_trace(timeline)))
    return found


def slices(trace: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def check_format(trace: dict[str, Any]) -> None:
    assert trace["displayTimeUnit"] in {"ms", "ns"}
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    for event in trace["traceEvents"]:
        assert event.keys() == NEEDED[event["ph"]]
        assert isinstance(event["args"], dict)
        assert all(type(event[name]) is int and event[name] >= 0 for name in ("pid", "tid"))
        if event["ph"] == "M":
            assert set(event["args"]) == {LABELS[event["name"]]}
        else:
            assert event["ts"] >= 0
            assert event["dur"] > 0


def check_nesting(trace: dict[str, Any]) -> None:
    """On a thread no event begins before the one before has ended, in whole nanoseconds."""
    threads: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in slices(trace):
        start, length = event["ts"] * 1000, event["dur"] * 1000
        assert start == pytest.approx(round(start), abs=1e-6)
        threads[event["pid"], event["tid"]].append((round(start), round(start) + round(length)))
    for parts in threads.values():
        for before, after in itertools.pairwise(sorted(parts)):
            assert before[1] <= after[0]


def test_one_forward_one_backward_by_hand() -> None:
    timeline = shown(
        "1f1b", (2, 2, 1), load_ms=3, communication={"kind": "fixed", "allreduce_ms": 4}
    )
    trace = read(timeline)
    check_format(trace)
    check_nesting(trace)
    events = {(event["tid"], event["name"]): (event["ts"], event["dur"]) for event in slices(trace)}
    assert events == {
        (0, "F 0"): (3000, 1000),
        (0, "F 1"): (4000, 1000),
        (0, "B 0"): (7000, 2000),
        (0, "B 1"): (10000, 2000),
        (1, "F 0"): (4000, 1000),
        (1, "B 0"): (5000, 2000),
        (1, "F 1"): (7000, 1000),
        (1, "B 1"): (8000, 2000),
        (2, "load"): (0, 3000),
        (2, "pass"): (3000, 9000),
        (2, "exchange"): (12000, 4000),
    }
    labels = [event for event in trace["traceEvents"] if event["ph"] == "M"]
    named = {
        event["tid"]: event["args"]["name"]
        for event in labels
        if event["name"][0] == "t" and "name" in event["args"]
    }
    assert named == {0: "stage 0", 1: "stage 1", 2: "step"}
    order = {
        event["tid"]: event["args"].get("sort_index")
        for event in labels
        if event["name"] == "thread_sort_index"
    }
    assert sorted(order, key=lambda tid: order[tid] or 0) == [2, 0, 1]
    assert trace["otherData"]["schedule"] == "1f1b"
    assert float(trace["otherData"]["makespan_ms"]) == 9


def test_a_replica_is_a_process_and_arguments_name_the_parts() -> None:
    slow = [{"count": 1, "speed_fraction": 0.7, "placement": 3}]
    timeline = shown(
        "dualpipev",
        (4, 8, 2),
        num_gpus=12,
        slow_groups=slow,
        pipeline={"p2p_ms": 0.1, "per_op_jitter": {"kind": "gamma", "cv": 0.2}},
    )
    trace = read(timeline)
    check_format(trace)
    check_nesting(trace)
    assert {event["pid"] for event in trace["traceEvents"]} == {timeline.replica}
    pairs = [event for event in slices(trace) if event["cat"] == "forward_backward"]
    assert pairs
    for event in pairs:
        ours = event["args"]
        assert event["name"] == f"F {ours['microbatch']} + B {ours['backward_microbatch']}"
        assert {ours["chunk"], ours["backward_chunk"]} == {0, 1}
    weights = [event for event in slices(trace) if event["cat"] == "backward_weight"]
    assert all(event["name"] == f"W {event['args']['microbatch']}" for event in weights)
    assert weights
    assert trace_file_name(timeline) == "timeline-dualpipev-4x8x2-replica-0.trace.json"


def test_rounding_makes_no_overlap() -> None:
    timeline = shown(
        "zb_h2",
        (4, 12, 1),
        pipeline={"forward_ms": 1 / 3, "backward_ms": 2 / 7, "p2p_ms": 1e-4},
        variability={"transient": {"kind": "lognormal", "cv": 0.05}},
    )
    check_nesting(read(timeline))
