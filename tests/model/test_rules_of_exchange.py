"""Rules about messages, links and measured curves."""

from typing import Any

import pytest

from service.model.columns import columns_of, joined
from service.model.problems import InvalidScenario
from service.model.rules import FAILURES, describe_failure, failures
from service.model.scenario import decode_scenario
from tests.model.exchange.exchanges import INTRA, LINK, by, point, scenario

CURVE = {"sizes_bytes": [1e8, 1e9, 1e10], "times_ms": [10, 90, 800]}
PRESET = {"preset": "wide_area_1g_2026_11"}
FSDP = {"kind": "fsdp", "num_layers": 10}


def broken(communication: dict[str, Any], **fields: Any) -> tuple[str, str, str]:
    """Code, pointer and sentence of the one rule that the scenario breaks."""
    asked = scenario(communication, **fields)
    (code,) = failures(columns_of(asked))
    problem = describe_failure(int(code), asked)
    assert problem.code == FAILURES[code]
    with pytest.raises(InvalidScenario) as caught:
        decode_scenario(
            {"num_gpus": 64, "compute_ms": 300, **fields, "communication": communication}
        )
    assert problem in caught.value.problems
    # Neighbours in a grid are computed.
    among = joined([point(), columns_of(asked), point(by("ring"))])
    assert failures(among).tolist() == [0, code, 0]
    return problem.code, problem.pointer, problem.detail


@pytest.mark.parametrize(
    ("communication", "fields"),
    [
        (None, {}),
        ({"kind": "fixed", "allreduce_ms": 80}, {}),
        (by("ring"), {}),
        (by("ring", link=PRESET), {}),
        (by("ring", link={**PRESET, "round_trip_ms": 300}), {}),
        (by("tree"), {"num_gpus": 13}),
        (by("auto"), {"num_gpus": 13}),
        (by("auto", intra_link=INTRA), {"num_gpus": 13}),
        (by("hierarchical"), {"num_gpus": 4}),
        (by("hierarchical"), {"num_gpus": 64, "tensor_parallel_size": 4}),
        (by("transfer"), {}),
        (by("nccl"), {"num_gpus": 16}),
        ({"kind": "ring", "link": LINK, "parameters": 7e9}, {}),
        (by("measured", **CURVE), {}),
        (by("measured", **CURVE, measured_num_ranks=16), {"tensor_parallel_size": 4}),
        (by("measured", **CURVE), {"overlap": {"kind": "buckets", "num_buckets": 10}}),
        (by("measured", **CURVE, compression_ratio=10), {}),
        (by("auto"), {"overlap": FSDP}),
        (by("nccl"), {"overlap": FSDP}),
    ],
)
def test_what_is_allowed(communication: dict[str, Any] | None, fields: dict[str, Any]) -> None:
    assert failures(point(communication, **fields)) == 0


@pytest.mark.parametrize("kind", ["ring", "tree", "hierarchical", "auto", "transfer", "nccl"])
def test_a_message_is_given_once(kind: str) -> None:
    none = by(kind)
    del none["message_bytes"]
    code, pointer, detail = broken(none)
    assert (code, pointer) == ("not_one_message", "/communication")
    assert detail == "give one of message_bytes and parameters, here are none"
    assert "here are both" in broken(by(kind, parameters=1e9))[2]


def test_a_measured_curve_needs_a_message_too() -> None:
    assert broken({"kind": "measured", **CURVE})[0] == "not_one_message"


@pytest.mark.parametrize(
    ("communication", "pointer"),
    [
        (by("ring", link={}), "/communication/link"),
        (by("ring", link={"window_bytes": 1e6, "round_trip_ms": 10}), "/communication/link"),
        (by("hierarchical", intra_link={}), "/communication/intra_link"),
        (by("nccl", intra_link={"latency_us": 3}), "/communication/intra_link"),
        (by("auto", intra_link={"latency_us": 3}), "/communication/intra_link"),
    ],
)
def test_a_link_has_a_bandwidth(communication: dict[str, Any], pointer: str) -> None:
    code, found, detail = broken(communication)
    assert (code, found) == ("link_without_bandwidth", pointer)
    assert "bandwidth_gigabytes_per_s, or a preset" in detail


@pytest.mark.parametrize("name", ["link", "intra_link"])
def test_a_window_needs_a_round_trip(name: str) -> None:
    code, pointer, detail = broken(by("hierarchical", **{name: {**LINK, "window_bytes": 1e6}}))
    assert (code, pointer) == ("half_a_window", f"/communication/{name}")
    assert detail.startswith("window_bytes without round_trip_ms")


@pytest.mark.parametrize("kind", ["hierarchical", "nccl"])
def test_nodes_must_be_whole(kind: str) -> None:
    code, pointer, detail = broken(by(kind), num_gpus=12)
    assert (code, pointer) == ("no_whole_nodes_to_exchange", "/communication/kind")
    assert detail.startswith("12 data-parallel ranks do not fill nodes of 8")


def test_a_curve_s_sizes_ascend() -> None:
    curve = {"sizes_bytes": [1e8, 1e10, 1e10], "times_ms": [1, 2, 3]}
    code, pointer, detail = broken(by("measured", **curve))
    assert (code, pointer) == ("not_a_measured_curve", "/communication/sizes_bytes/2")
    assert detail == "sizes must ascend, but 1e+10 follows 1e+10"


def test_a_curve_has_a_time_for_each_size() -> None:
    code, pointer, detail = broken(by("measured", sizes_bytes=[1e8, 1e10], times_ms=[1, 2, 3]))
    assert (code, pointer) == ("not_a_measured_curve", "/communication/times_ms")
    assert detail == "3 times of 2 sizes"


@pytest.mark.parametrize(
    ("changes", "fields", "sentence"),
    [
        ({"message_bytes": 1e7}, {}, "1e+07 bytes are exchanged, but"),
        ({"message_bytes": 1e11}, {}, "1e+11 bytes are exchanged, but"),
        ({"message_bytes": 0}, {}, "0 bytes are exchanged, but"),
        ({"compression_ratio": 20}, {}, "5e+07 bytes are exchanged, but"),
        (
            {},
            {"overlap": {"kind": "buckets", "num_buckets": 20}},
            "of 1e+09 bytes a part of 5e+07 travels by itself, but",
        ),
        (
            {},
            {"overlap": {"kind": "buckets", "bucket_bytes": 0.33e9}},
            "of 1e+09 bytes a part of 1e+07 travels by itself, but",
        ),
        (
            {},
            {"synchronization": {"kind": "local_steps", "steps": 100, "fragments": 20}},
            "of 1e+09 bytes a part of 5e+07 travels by itself, but",
        ),
    ],
)
def test_nothing_is_guessed_beyond_the_measured_sizes(
    changes: dict[str, Any], fields: dict[str, Any], sentence: str
) -> None:
    code, pointer, detail = broken(by("measured", **{**CURVE, **changes}), **fields)
    assert (code, pointer) == ("beyond_measured_sizes", "/communication/sizes_bytes")
    assert detail == f"{sentence} only messages from 1e+08 to 1e+10 bytes were measured"


def test_a_curve_of_other_ranks_is_refused() -> None:
    code, pointer, detail = broken(by("measured", **CURVE, measured_num_ranks=32))
    assert (code, pointer) == ("measured_with_other_ranks", "/communication/measured_num_ranks")
    assert detail.startswith("measured with 32 ranks, but 64 data-parallel ranks exchange here")


def test_an_exchange_ends_within_what_a_step_may_take() -> None:
    slow = {"bandwidth_gigabytes_per_s": 1e-9}
    code, pointer, detail = broken(by("ring", link=slow, message_bytes=1e18))
    assert (code, pointer) == ("exchange_takes_too_long", "/communication")
    assert detail == "an exchange of 1e+18 bytes would take more than 1e+12 ms"


@pytest.mark.parametrize(
    ("communication", "kind"),
    [
        ({"kind": "fixed", "allreduce_ms": 80}, "fixed"),
        (by("tree"), "tree"),
        (by("transfer"), "transfer"),
        (by("nccl", algorithm="tree"), "nccl"),
        (by("measured", **CURVE), "measured"),
    ],
)
def test_sharding_needs_halves_of_an_all_reduce(communication: dict[str, Any], kind: str) -> None:
    code, pointer, detail = broken(communication, overlap=FSDP)
    assert (code, pointer) == ("no_halves_to_exchange", "/communication/kind")
    assert f"{kind} has none" in detail


def test_points_of_a_grid_share_their_curve() -> None:
    one = point(by("measured", **CURVE))
    bent = {"sizes_bytes": [1e8, 1e8, 1e10], "times_ms": [1, 2, 3]}
    other = point(by("measured", **bent))
    columns = joined([one, other, one, point(by("measured", **CURVE, message_bytes=1e12)), other])
    found = [FAILURES[code] for code in failures(columns)]
    assert found == ["", BENT, "", "beyond_measured_sizes", BENT]


BENT = "not_a_measured_curve"
