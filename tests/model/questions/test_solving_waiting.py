"""Inverse questions about links, overlap and waiting, against closed forms."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.model.questions.solving import Question, Seek, Solution, Target, solve
from service.model.questions.solving_questions import DEFAULT_TOLERANCE
from service.model.scenario import decode_fields

ORACLE = Path(__file__).parents[1] / "data" / "communication.csv"
BANDWIDTH = "communication.link.bandwidth_gigabytes_per_s"
RING: dict[str, Any] = {
    "kind": "ring",
    "parameters": 7e9,
    "link": {"latency_us": 10, "bandwidth_gigabytes_per_s": 50},
}
# Of 64 ranks: bytes that each sends, and what latencies take.
SENT = 2 * 63 / 64 * 14e9
LATENCIES_MS = 2 * 63 * 0.01


def document(**changes: Any) -> dict[str, Any]:
    return {"num_gpus": 64, "compute_ms": 300, "communication": RING, **changes}


def asked(
    scenario: dict[str, Any],
    path: str,
    seek: Seek,
    column: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Solution:
    threshold = at_most if at_least is None else at_least
    assert threshold is not None
    target = Target(column=column, threshold=threshold, at_least=at_least is not None)
    question = Question(path=path, seek=seek, target=target, tolerance=tolerance)
    return solve(decode_fields(scenario), question)


def answer(found: Solution) -> float:
    assert found.at is not None
    assert found.neighbor is not None
    return found.at.value


@pytest.mark.parametrize("useful", [0.05, 0.5, 0.95, 0.99])
def test_the_bandwidth_for_a_utilization(useful: float) -> None:
    found = asked(document(), BANDWIDTH, "smallest", "useful_compute_fraction", at_least=useful)
    communication_ms = 300 / useful - 300
    expected = SENT / 1e6 / (communication_ms - LATENCIES_MS)
    assert answer(found) == pytest.approx(expected, rel=2e-9)


def test_the_bandwidth_of_a_link_that_is_a_preset() -> None:
    link = {"preset": "infiniband_ndr_400_2026_11", "latency_us": 10, "efficiency_fraction": 1}
    scenario = document(communication={**RING, "link": link})
    found = asked(scenario, BANDWIDTH, "smallest", "useful_compute_fraction", at_least=0.9)
    expected = SENT / 1e6 / (300 / 0.9 - 300 - LATENCIES_MS)
    assert answer(found) == pytest.approx(expected, rel=2e-9)


def test_the_bandwidth_that_hides_all_but_the_last_bucket() -> None:
    # Compute-bound: 300 + C/K.
    scenario = document(overlap={"kind": "buckets", "num_buckets": 20}, backward_fraction=0.5)
    scenario["communication"] = {**RING, "link": {"bandwidth_gigabytes_per_s": 1, "latency_us": 0}}
    found = asked(scenario, BANDWIDTH, "smallest", "exposed_communication_ms", at_most=5)
    assert answer(found) == pytest.approx(SENT / 1e6 / 100, rel=2e-9)
    # Communication-bound: 150 + 150/20 + C.
    found = asked(scenario, BANDWIDTH, "smallest", "exposed_communication_ms", at_most=100)
    assert answer(found) == pytest.approx(SENT / 1e6 / (400 - 157.5), rel=2e-9)


def test_the_largest_latency() -> None:
    path = "communication.link.latency_us"
    found = asked(document(), path, "largest", "exposed_communication_ms", at_most=600)
    assert answer(found) == pytest.approx((600 - SENT / 50e6) / 126 * 1000, rel=2e-9)


def test_the_largest_round_trip_of_a_window() -> None:
    # bandwidth = min(1.25, flows x window / round trip) in gigabytes a second
    link = {"bandwidth_gigabytes_per_s": 1.25, "round_trip_ms": 50, "window_bytes": 6e6, "flows": 4}
    still = {**link, "latency_us": 0}
    scenario = document(communication={"kind": "ring", "message_bytes": 2e9, "link": still})
    path = "communication.link.round_trip_ms"
    found = asked(scenario, path, "largest", "useful_compute_fraction", at_least=0.03)
    allowed_ms = 300 / 0.03 - 300
    bandwidth = 2 * 63 / 64 * 2e9 / 1e6 / allowed_ms
    assert bandwidth < 1.25
    assert answer(found) == pytest.approx(4 * 6e6 / 1e6 / bandwidth, rel=2e-9)
    # Without a latency of its own a link waits half of the round trip for each of 126 messages.
    scenario["communication"]["link"] = link
    found = asked(scenario, path, "largest", "useful_compute_fraction", at_least=0.03)
    of_window = 2 * 63 / 64 * 2e9 / 1e6 / (4 * 6)
    assert answer(found) == pytest.approx(allowed_ms / (63 + of_window), rel=2e-9)


def test_a_transfer_between_far_places() -> None:
    """One message a round to one place, as published tables of DiLoCo reckon."""
    transfer = {
        "kind": "transfer",
        "message_bytes": 4e9,
        "link": {"bandwidth_gigabytes_per_s": 1, "latency_us": 5000},
    }
    local = {"kind": "local_steps", "steps": 100}
    scenario = document(communication=transfer, synchronization=local)
    found = asked(scenario, BANDWIDTH, "smallest", "useful_compute_fraction", at_least=0.8)
    allowed_ms = 100 * (300 / 0.8 - 300)
    assert answer(found) == pytest.approx(4e9 / 1e6 / (allowed_ms - 5), rel=2e-9)


def published() -> list[tuple[dict[str, Any], float]]:
    """Streaming DiLoCo, Table 4: gigabits a second for a share of useful compute."""
    with ORACLE.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "gbps_for_cu"]
    read = [(json.loads(row["inputs"]), float(row["expected"])) for row in rows]
    return [
        (inputs, gbps)
        for inputs, gbps in read
        if "layers" in inputs and inputs["method"] != "streaming_overlap"
    ]


@pytest.mark.parametrize(("inputs", "gbps"), published())
def test_the_published_bandwidths_within_a_step_of_their_grid(
    inputs: dict[str, Any], gbps: float
) -> None:
    scenario: dict[str, Any] = {
        "num_gpus": 2,
        "compute_ms": 1e3 * inputs["step_s"],
        "communication": {
            "kind": "transfer",
            "parameters": inputs["params"],
            "link": {"latency_us": 0, "bandwidth_gigabytes_per_s": 1},
        },
        "overlap": {"kind": "buckets", "num_buckets": inputs["layers"]},
    }
    if "H" in inputs:
        scenario["synchronization"] = {"kind": "local_steps", "steps": inputs["H"]}
    found = asked(scenario, BANDWIDTH, "smallest", "useful_compute_fraction", at_least=inputs["cu"])
    # They print the first of logspace(0.1, 1000, 50) that suffices.
    grid = np.logspace(-1, 3, 50)
    needed = int(np.searchsorted(grid, 8 * answer(found)))
    place = int(np.abs(np.log(grid / gbps)).argmin())
    assert 0 <= needed - place <= 1


@pytest.mark.parametrize("useful", [0.5, 0.9, 0.95, 0.999])
def test_local_steps_for_a_utilization(useful: float) -> None:
    fixed = {"kind": "fixed", "allreduce_ms": 5003}
    scenario = document(communication=fixed, synchronization={"kind": "local_steps", "steps": 10})
    path = "synchronization.steps"
    found = asked(scenario, path, "smallest", "useful_compute_fraction", at_least=useful)
    # H >= (t / T) u / (1 - u)
    assert answer(found) == math.ceil(5003 / 300 * useful / (1 - useful))


def test_local_steps_stay_whole_fragments() -> None:
    transfer = {"kind": "transfer", "message_bytes": 4e9, "link": {"bandwidth_gigabytes_per_s": 1}}
    local = {"kind": "local_steps", "steps": 10, "fragments": 5}
    scenario = document(communication=transfer, synchronization=local)
    path = "synchronization.steps"
    found = asked(scenario, path, "smallest", "useful_compute_fraction", at_least=0.9)
    # Five stops of 800 ms in a round are one of 4 000.
    needed = 4000 / 300 * 0.9 / 0.1
    assert answer(found) == math.ceil(needed / 5) * 5
    assert found.neighbor is not None
    assert found.neighbor.value == math.ceil(needed / 5) * 5 - 5
    found = asked(
        {**scenario, "synchronization": {**local, "steps": 24, "fragments": 2}},
        "synchronization.fragments",
        "largest",
        "useful_compute_fraction",
        at_least=0.1,
    )
    assert found.at is not None
    assert found.at.value == 24


@pytest.mark.parametrize(("delay", "load"), [(5000.0, 30), (329.0, 30), (331.0, 30), (1e5, 0)])
def test_the_staleness_that_hides_a_delay(delay: float, load: int) -> None:
    stale = {"kind": "bounded_staleness", "staleness": 1, "delay_ms": delay}
    nothing = {"kind": "fixed", "allreduce_ms": 0}
    scenario = document(load_ms=load, communication=nothing, synchronization=stale)
    path = "synchronization.staleness"
    found = asked(scenario, path, "smallest", "exposed_communication_ms", at_most=0)
    assert found.at is not None
    # ceil(d / X)
    assert found.at.value == math.ceil(delay / (300 + load))
    delays = asked(
        {**scenario, "synchronization": {**stale, "staleness": 4}},
        "synchronization.delay_ms",
        "largest",
        "step_mean_ms",
        at_most=400 + load,
    )
    # (X + d) / (s + 1)
    assert answer(delays) == pytest.approx(5 * (400 + load) - 300 - load, rel=2e-9)


def test_overlapped_steps_that_hide_an_exchange() -> None:
    local = {"kind": "local_steps", "steps": 24, "overlap_steps": 0}
    scenario = document(
        communication={"kind": "fixed", "allreduce_ms": 2000}, synchronization=local
    )
    path = "synchronization.overlap_steps"
    found = asked(scenario, path, "smallest", "exposed_communication_ms", at_most=0)
    # An exchange that begins when its step ends has that many steps of 300 ms.
    assert answer(found) == math.ceil(2000 / 300)


def test_the_fewest_buckets_and_the_best_of_them() -> None:
    scenario = document(
        communication={"kind": "fixed", "allreduce_ms": 100},
        overlap={"kind": "buckets", "num_buckets": 1},
    )
    path = "overlap.num_buckets"
    found = asked(scenario, path, "smallest", "exposed_communication_ms", at_most=7)
    # 100 / K
    assert answer(found) == math.ceil(100 / 7)


def test_the_compression_for_a_target() -> None:
    found = asked(
        document(),
        "communication.compression_ratio",
        "smallest",
        "useful_compute_fraction",
        at_least=0.8,
    )
    allowed_ms = 300 / 0.8 - 300 - LATENCIES_MS
    assert answer(found) == pytest.approx(SENT / 50e6 / allowed_ms, rel=2e-9)


def test_whole_nodes_where_an_exchange_goes_by_nodes() -> None:
    node = {"latency_us": 1, "bandwidth_gigabytes_per_s": 300}
    hierarchical = {**RING, "kind": "hierarchical", "intra_link": node}
    found = asked(
        document(communication=hierarchical),
        "num_gpus",
        "largest",
        "useful_compute_fraction",
        at_least=0.68,
    )
    assert found.at is not None
    assert found.at.value % 8 == 0

    # 2 x 7/8 inside, 2 (M - 1)/M of an eighth between; min(2 (M - 1), 2 ceil(log2 M)) latencies.
    def useful(num_gpus: int) -> float:
        nodes = num_gpus // 8
        inside = 2 * 7 * 0.001 + 2 * 7 / 8 * 14e9 / 300e6
        latencies = min(2 * (nodes - 1), 2 * math.ceil(math.log2(nodes))) * 0.01
        return 300 / (300 + inside + latencies + 2 * (nodes - 1) / nodes * 14e9 / 8 / 50e6)

    sound = [number for number in range(16, 4000, 8) if useful(number) >= 0.68]
    assert found.at.value == max(sound) < 3992


def test_simulated_staleness_keeps_its_promise_and_says_how_surely() -> None:
    scenario = document(
        num_gpus=4,
        communication={"kind": "fixed", "allreduce_ms": 80},
        variability={"transient": {"kind": "normal", "cv": 0.05}},
        synchronization={"kind": "bounded_staleness", "staleness": 1, "delay_ms": 1000},
        draws=16,
    )
    path = "synchronization.staleness"
    found = asked(scenario, path, "smallest", "step_mean_ms", at_most=320)
    # (X + d) / (s + 1) without noise, and a little more with it.
    assert answer(found) == math.ceil(1380 / 320) - 1
    assert found.at is not None
    assert 0 < found.at.standard_error < 1
    assert found.at.target == found.at.columns["step_mean_ms"][0]
