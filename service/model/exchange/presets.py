"""Dated links with their sources; values are of one GPU in one direction.

`measured` values were read from a run, `published` ones stand in a source, `assumed` ones are
this project's choice: replace them with your own. A link's label is that of its weakest value.
"""

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from service.model.parts.link_presets import LinkPreset

Evidence = Literal["measured", "published", "assumed"]

LINK_FIELDS = (
    "latency_us",
    "bandwidth_gigabytes_per_s",
    "efficiency_fraction",
    "round_trip_ms",
    "window_bytes",
    "flows",
)
"""Of a link, and of its preset."""


class LinkValues(Struct, frozen=True, kw_only=True):
    """A preset: the values that it stands for, and where they come from."""

    name: LinkPreset
    dated_on: Annotated[str, Meta(description="When the values were gathered, or published.")]
    evidence: Annotated[
        Evidence, Meta(description="measured, published or assumed: of the weakest value.")
    ]
    provenance: Annotated[str, Meta(description="Where each value comes from.")]
    bandwidth_gigabytes_per_s: Annotated[
        float, Meta(description="Of one GPU in one direction, 1e9 bytes per second.")
    ]
    latency_us: Annotated[float, Meta(description="From one rank to the next, one way.")]
    efficiency_fraction: Annotated[
        float | None, Meta(description="Of the bandwidth, what is left for the message.")
    ] = None
    round_trip_ms: Annotated[float | None, Meta(description="Null: nothing waits for it.")] = None
    window_bytes: Annotated[float | None, Meta(description="Of one flow; null: no cap.")] = None
    flows: Annotated[int | None, Meta(description="Null: one.")] = None


# Linux's net.ipv4.tcp_wmem: by default a socket's send buffer grows to 4 MiB.
_TCP_WINDOW = 4_194_304.0
# Of an Ethernet frame of 1 538 bytes on the wire, 1 448 are the message's.
_TCP_FRAMES = 0.9415
_HOP = "Latency: a ring step of NCCL's tuner (src/graph/tuning.cc, commit 5067397, Simple)."
_NODE_HOP = 3.4
_PCI_HOP = 5.7
_NET_HOP = 14.0

_ALL = (
    LinkValues(
        name="nvlink_3_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=300.0,
        efficiency_fraction=0.8,
        latency_us=_NODE_HOP,
        provenance="A100: 12 links of 25 GB/s each way (vendor's data sheet). Efficiency: NCCL "
        f"reckons with 20 GB/s a link (src/graph/topo.h). {_HOP}",
    ),
    LinkValues(
        name="nvlink_4_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=450.0,
        efficiency_fraction=0.82,
        latency_us=_NODE_HOP,
        provenance="H100: 450 GB/s line rate, of which NCCL's ring gets 370 (a NCCL maintainer in "
        f"NVIDIA/nccl-tests issue 212, 2024-05-06). {_HOP}",
    ),
    LinkValues(
        name="nvlink_5_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=900.0,
        efficiency_fraction=0.8,
        latency_us=_NODE_HOP,
        provenance="B200: 18 links of 50 GB/s each way (vendor's data sheet). Efficiency: NCCL "
        f"reckons with 40.1 GB/s a link (src/graph/topo.h). {_HOP}",
    ),
    LinkValues(
        name="infinity_fabric_mi300x_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=448.0,
        efficiency_fraction=0.75,
        latency_us=_NODE_HOP,
        provenance="MI300X: 7 links of 64 GB/s each way, of which some 48 are usable (AMD, ROCm "
        "blog of 2025-03-02, Understanding RCCL Bandwidth and xGMI Performance). Latency: assumed "
        "as of NVLink.",
    ),
    LinkValues(
        name="pcie_4_x16_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=31.5,
        efficiency_fraction=0.76,
        latency_us=_PCI_HOP,
        provenance="16 lanes of 16 GT/s, 128b/130b. Efficiency: NCCL reckons with 12 GB/s for 16 "
        f"lanes of PCIe 3 (src/graph/topo.h); without peer-to-peer transfers it is less. {_HOP}",
    ),
    LinkValues(
        name="pcie_5_x16_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=63.0,
        efficiency_fraction=0.76,
        latency_us=_PCI_HOP,
        provenance=f"16 lanes of 32 GT/s, 128b/130b. Efficiency: assumed as of PCIe 4. {_HOP}",
    ),
    LinkValues(
        name="infiniband_hdr_200_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=25.0,
        efficiency_fraction=0.96,
        latency_us=_NET_HOP,
        provenance="200 Gbit/s for each GPU. Efficiency: 96 of 100 GB/s over four cards of a node, "
        f"measured by a user, 24 A100 (NVIDIA/nccl-tests issue 119, 2022-11-17). {_HOP}",
    ),
    LinkValues(
        name="infiniband_ndr_400_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=50.0,
        efficiency_fraction=0.94,
        latency_us=_NET_HOP,
        provenance="400 Gbit/s for each GPU. Efficiency: 46 to 48 GB/s a card are to be expected "
        f"(a NCCL maintainer in NVIDIA/nccl-tests issue 290, 2025-03-03). {_HOP}",
    ),
    LinkValues(
        name="roce_100_2026_11",
        dated_on="2026-11-30",
        evidence="published",
        bandwidth_gigabytes_per_s=12.5,
        efficiency_fraction=0.75,
        latency_us=_NET_HOP,
        provenance="100 Gbit/s for each GPU. Efficiency: 600 of 800 Gbit/s on two nodes of eight "
        "A100, measured by a user; a maintainer called it a little low (NVIDIA/nccl issue 495, "
        f"2021-04-16). {_HOP}",
    ),
    LinkValues(
        name="ethernet_25_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=3.125,
        efficiency_fraction=0.89,
        latency_us=50.0,
        provenance="25 Gbit/s for each GPU over TCP. Efficiency and latency: assumed as of "
        "ethernet_10_2026_11.",
    ),
    LinkValues(
        name="ethernet_10_2026_11",
        dated_on="2026-11-30",
        evidence="measured",
        bandwidth_gigabytes_per_s=1.25,
        efficiency_fraction=0.89,
        latency_us=50.0,
        provenance="10 Gbit/s for each GPU over TCP. 8.9 Gbit/s and 0.05 ms were measured with "
        "PyTorch and NCCL between two AWS p3.2xlarge (README of BinhangYuan/tc_cluster_setting, "
        "2022).",
    ),
    LinkValues(
        name="wide_area_100g_2025_03",
        dated_on="2025-03-12",
        evidence="published",
        bandwidth_gigabytes_per_s=12.5,
        latency_us=1_000.0,
        provenance="The medium network of DiLoCo's scaling laws (arXiv 2503.09799, appendix A): "
        "100 Gbit/s and 1 ms; an archetype, not a measurement.",
    ),
    LinkValues(
        name="wide_area_10g_2025_03",
        dated_on="2025-03-12",
        evidence="published",
        bandwidth_gigabytes_per_s=1.25,
        latency_us=10_000.0,
        provenance="The low-bandwidth network of DiLoCo's scaling laws (arXiv 2503.09799, appendix "
        "A): 10 Gbit/s and 10 ms; an archetype, not a measurement.",
    ),
    LinkValues(
        name="wide_area_1g_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=0.125,
        efficiency_fraction=_TCP_FRAMES,
        latency_us=20_000.0,
        round_trip_ms=40.0,
        window_bytes=_TCP_WINDOW,
        flows=1,
        provenance="1 Gbit/s between sites: speed and distance are assumed. Efficiency: TCP in "
        "frames of 1 500 bytes. Window: Linux's default limit, net.ipv4.tcp_wmem.",
    ),
    LinkValues(
        name="internet_consumer_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=0.0025,
        efficiency_fraction=_TCP_FRAMES,
        latency_us=20_000.0,
        round_trip_ms=40.0,
        window_bytes=_TCP_WINDOW,
        flows=1,
        provenance="A consumer GPU behind a household's line: its upload is the limit. 20 Mbit/s "
        "is the FCC's benchmark of March 2024 for upload, taken as the speed; latency is assumed. "
        "Efficiency and window as of wide_area_1g_2026_11.",
    ),
    LinkValues(
        name="internet_fibre_2026_11",
        dated_on="2026-11-30",
        evidence="assumed",
        bandwidth_gigabytes_per_s=0.125,
        efficiency_fraction=_TCP_FRAMES,
        latency_us=10_000.0,
        round_trip_ms=20.0,
        window_bytes=_TCP_WINDOW,
        flows=1,
        provenance="A consumer GPU behind a line of 1 Gbit/s both ways: OpenDiLoCo's four workers "
        "had 127 to 935 Mbit/s. Latency is assumed. Efficiency and window as of "
        "wide_area_1g_2026_11.",
    ),
    LinkValues(
        name="shaped_tcp_1g_50ms_2022",
        dated_on="2022-06-01",
        evidence="measured",
        bandwidth_gigabytes_per_s=0.125,
        efficiency_fraction=0.85,
        latency_us=50_000.0,
        round_trip_ms=100.0,
        window_bytes=5_700_000.0,
        flows=1,
        provenance="AWS V100 nodes shaped by Linux's tc to 1 Gbit/s and 50 ms one way (DS3Lab, "
        "BinhangYuan/tc_cluster_setting, results/Simulate_DP.md). Efficiency and window are fitted "
        "here to its all-reduces at four network settings: within 9 % for 4 and 8 nodes; of the "
        "five runs on 16 nodes three took 1.6 to 2.8 times as long.",
    ),
)


def _in_order(presets: tuple[LinkValues, ...]) -> tuple[LinkValues, ...]:
    """The presets in the order of their names in the input, one for each."""
    by_name = {preset.name: preset for preset in presets}
    return tuple(by_name[name] for name in get_args(LinkPreset))


LINK_PRESETS = _in_order(_ALL)
"""By the code of the name, less one."""
