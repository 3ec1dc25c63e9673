"""Names of the dated links; their values and sources: service/model/exchange/presets.py."""

from typing import Literal

LinkPreset = Literal[
    "nvlink_3_2026_11",
    "nvlink_4_2026_11",
    "nvlink_5_2026_11",
    "infinity_fabric_mi300x_2026_11",
    "pcie_4_x16_2026_11",
    "pcie_5_x16_2026_11",
    "infiniband_hdr_200_2026_11",
    "infiniband_ndr_400_2026_11",
    "roce_100_2026_11",
    "ethernet_25_2026_11",
    "ethernet_10_2026_11",
    "wide_area_100g_2025_03",
    "wide_area_10g_2025_03",
    "wide_area_1g_2026_11",
    "internet_consumer_2026_11",
    "internet_fibre_2026_11",
    "shaped_tcp_1g_50ms_2022",
]
"""Appended to, never reordered: stored columns hold positions."""
