"""The dated links: their values are links, and the fitted one meets what it was fitted to."""

from datetime import date
from typing import Any, get_args

import msgspec
import pytest

from service.model.exchange.collectives import exchange_of
from service.model.exchange.presets import LINK_FIELDS, LINK_PRESETS, LinkValues
from service.model.parts.communication import Link
from service.model.parts.link_presets import LinkPreset
from tests.model.exchange.exchanges import OracleRow, oracle, point

MEASURED = oracle("measured_allreduce_s")


def test_the_presets_stand_in_the_order_of_their_codes() -> None:
    assert tuple(preset.name for preset in LINK_PRESETS) == get_args(LinkPreset)


@pytest.mark.parametrize("preset", LINK_PRESETS, ids=lambda preset: preset.name)
def test_values_are_those_of_a_link_and_say_where_they_come_from(preset: LinkValues) -> None:
    values = {name: getattr(preset, name) for name in LINK_FIELDS}
    link = msgspec.convert(values, Link)
    assert link.preset is None
    assert (preset.window_bytes is None) == (preset.round_trip_ms is None)
    year, _, rest = preset.dated_on.partition("-")
    assert preset.name.endswith((year, f"{year}_{rest[:2]}"))
    assert date.fromisoformat(preset.dated_on) <= date(2026, 11, 30)
    assert ("assumed" in preset.provenance) == (preset.evidence == "assumed")
    assert len(preset.provenance) > 60


def all_reduce_s(row: OracleRow, **fitted: float) -> float:
    inputs = row.inputs
    delay = inputs["one_way_delay_s"]
    link: dict[str, Any] = {
        "bandwidth_gigabytes_per_s": inputs["bps"] / 8e9,
        "latency_us": delay * 1e6,
        **fitted,
    }
    if fitted:
        link["round_trip_ms"] = 2e3 * delay
    communication = {"kind": "ring", "message_bytes": inputs["MiB"] * 2**20, "link": link}
    exchange = exchange_of(point(communication, num_gpus=inputs["n"]))
    return float(exchange.allreduce_ms[0]) / 1e3


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: str(row.inputs))
def test_the_plain_formula_is_never_above_a_wide_area_measurement(row: OracleRow) -> None:
    assert all_reduce_s(row) < row.expected


FITTED = next(preset for preset in LINK_PRESETS if preset.name == "shaped_tcp_1g_50ms_2022")


def with_window(row: OracleRow) -> float:
    assert FITTED.efficiency_fraction is not None
    assert FITTED.window_bytes is not None
    return all_reduce_s(
        row,
        efficiency_fraction=FITTED.efficiency_fraction,
        window_bytes=FITTED.window_bytes,
    )


@pytest.mark.parametrize(
    "row", [row for row in MEASURED if row.inputs["n"] <= 8], ids=lambda row: str(row.inputs)
)
def test_the_window_meets_measurements_on_up_to_8_nodes(row: OracleRow) -> None:
    assert with_window(row) == pytest.approx(row.expected, rel=0.09)


def test_the_window_is_as_far_off_on_16_nodes_as_its_provenance_says() -> None:
    off = sorted(row.expected / with_window(row) for row in MEASURED if row.inputs["n"] == 16)
    assert [round(ratio, 1) for ratio in off] == [0.9, 1.0, 1.6, 1.6, 2.8]


def test_the_preset_itself_is_the_slowest_setting() -> None:
    (row,) = [row for row in MEASURED if row.inputs == SLOWEST]
    communication = {
        "kind": "ring",
        "message_bytes": row.inputs["MiB"] * 2**20,
        "link": {"preset": FITTED.name},
    }
    exchange = exchange_of(point(communication, num_gpus=4))
    assert exchange.allreduce_ms[0] / 1e3 == pytest.approx(row.expected, rel=0.05)


SLOWEST = {"MiB": 1024, "n": 4, "one_way_delay_s": 0.05, "bps": 1e9}
