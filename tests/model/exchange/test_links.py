from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.model.columns import joined
from service.model.exchange.links import INTRA_LINK, LINK, has_intra_link, link_of, resolved
from service.model.exchange.presets import LINK_PRESETS
from tests.model.exchange.exchanges import INTRA, by, point

SHAPED = next(preset for preset in LINK_PRESETS if preset.name == "shaped_tcp_1g_50ms_2022")
DEFAULTS = {"latency_us": 0, "efficiency_fraction": 1, "flows": 1}
OWN: dict[str, Any] = {
    "latency_us": 7,
    "bandwidth_gigabytes_per_s": 3,
    "efficiency_fraction": 0.5,
    "round_trip_ms": 11,
    "window_bytes": 1e6,
    "flows": 4,
}


@given(own=st.sets(st.sampled_from(sorted(OWN))), has_preset=st.booleans())
def test_a_value_is_the_own_one_else_the_preset_s_else_the_default(
    *, own: set[str], has_preset: bool
) -> None:
    link = {name: OWN[name] for name in own}
    if has_preset:
        link["preset"] = SHAPED.name
    # Between points that have no link at all.
    columns = joined([point(), point(by("ring", link=link)), point()])
    for name, value in OWN.items():
        preset = getattr(SHAPED, name) if has_preset else None
        expected = value if name in own else preset
        if expected is None:
            expected = DEFAULTS.get(name, np.nan)
        np.testing.assert_equal(resolved(columns, LINK, name)[1], expected)


@pytest.mark.parametrize("preset", LINK_PRESETS, ids=lambda preset: preset.name)
def test_every_preset_gives_a_link(preset: Any) -> None:
    link = link_of(point(by("ring", link={"preset": preset.name})), LINK)
    line = preset.bandwidth_gigabytes_per_s * 1e6 * (preset.efficiency_fraction or 1)
    cap = (
        np.inf
        if preset.window_bytes is None
        else preset.flows * preset.window_bytes / preset.round_trip_ms
    )
    assert link.bytes_per_ms[0] == pytest.approx(min(line, cap), rel=1e-12)
    assert link.latency_ms[0] == pytest.approx(preset.latency_us / 1e3)


@pytest.mark.parametrize(
    ("round_trip_ms", "flows", "used"),
    [
        # 4 MB under way a flow, 12.5 GB/s on the line: 40 kB per ms and flow at 100 ms.
        (100, 1, 4e4),
        (100, 8, 32e4),
        (100, 1_000, 12.5e6 * 0.5),
        (0, 1, 12.5e6 * 0.5),
    ],
)
def test_a_window_caps_the_bandwidth_of_a_long_round_trip(
    round_trip_ms: float, flows: int, used: float
) -> None:
    link = {
        "bandwidth_gigabytes_per_s": 12.5,
        "efficiency_fraction": 0.5,
        "round_trip_ms": round_trip_ms,
        "window_bytes": 4e6,
        "flows": flows,
    }
    columns = point(by("ring", link=link, slowest_link_fraction=0.25))
    assert link_of(columns, LINK).bytes_per_ms[0] == pytest.approx(0.25 * used, rel=1e-12)


def test_the_slowest_link_is_between_nodes_not_within() -> None:
    columns = point(by("hierarchical", slowest_link_fraction=0.5))
    assert link_of(columns, LINK).bytes_per_ms[0] == 12.5e6 / 2
    assert link_of(columns, INTRA_LINK).bytes_per_ms[0] == 300e6


def test_a_window_alone_is_no_link() -> None:
    columns = point(by("ring", link={"window_bytes": 1e6, "round_trip_ms": 10}))
    assert np.isnan(link_of(columns, LINK).bytes_per_ms[0])


def test_whether_there_is_a_link_within_nodes() -> None:
    columns = joined(
        [
            point(by("auto")),
            point(by("auto", intra_link={})),
            point(by("auto", intra_link=INTRA)),
            point(by("auto", intra_link={"preset": "nvlink_4_2026_11"})),
            point(by("ring")),
        ]
    )
    np.testing.assert_array_equal(has_intra_link(columns), [False, False, True, True, False])
    assert not has_intra_link(point(by("ring")))


def test_latency_is_half_of_a_round_trip_that_is_given_by_itself() -> None:
    fibre = "internet_fibre_2026_11"
    given = [
        ({"preset": fibre}, 10.0),
        ({"preset": fibre, "round_trip_ms": 50}, 25.0),
        ({"preset": fibre, "round_trip_ms": 50, "latency_us": 300}, 0.3),
        ({"bandwidth_gigabytes_per_s": 1, "round_trip_ms": 8}, 4.0),
        ({"bandwidth_gigabytes_per_s": 1}, 0.0),
    ]
    for link, latency_ms in given:
        assert link_of(point(by("ring", link=link)), LINK).latency_ms.tolist() == [latency_ms]
