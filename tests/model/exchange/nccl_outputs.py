"""Outputs of nccl-tests and rccl-tests in the forms that their versions print."""

import re
from typing import NamedTuple

DEVICES = "\n".join(
    f"#  Rank {rank:2d} Group  0 Pid {313 + rank:6d} on   worker-0 device {rank:2d} "
    f"[0x{24 + rank:02x}] NVIDIA H100 80GB HBM3"
    for rank in range(8)
)
# 2.13 of nccl-tests, eight GPUs, all_reduce_perf -b 8 -e 128M; the numbers are made up, and agree.
PLAIN = f"""\
# nThread 1 nGpus 8 minBytes 0 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 \
agg iters: 1 validation: 1 graph: 0
#
# Using devices
{DEVICES}
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
           0             0     float     sum      -1     6.36    0.00    0.00      0     6.40    0.00    0.00      0
           8             2     float     sum      -1    42.14    0.00    0.00      0    40.06    0.00    0.00      0
     1048576        262144     float     sum      -1    55.12   19.02   33.29      0    54.03   19.41   33.96      0
   134217728      33554432     float     sum      -1   1089.6  123.18  215.57      0   1101.2  121.88  213.29      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 82.7 
#
"""  # noqa: W291, E501 - as it is printed
WRONG = r"(?<=\d)      0(?= |$)"
SIZES = (8.0, 1048576.0, 134217728.0)
OUT_OF_PLACE = (0.04214, 0.05512, 1.0896)
IN_PLACE = (0.04006, 0.05403, 1.1012)


class Printed(NamedTuple):
    text: str
    sizes: tuple[float, ...] = SIZES
    out_of_place: tuple[float, ...] = OUT_OF_PLACE
    in_place: tuple[float, ...] = IN_PLACE
    num_ranks: int | None = 8


def _without(pattern: str, text: str = PLAIN) -> str:
    return re.sub(pattern, "", text, flags=re.MULTILINE)


def _every_line(tag: str) -> str:
    return "".join(f"{tag}{line}\n" for line in PLAIN.splitlines())


def _of_2020() -> str:
    """No group, no root; the largest error in place of a count of wrong elements."""
    text = _without(r" Group  0| root|      -1").replace("#wrong", " error")
    return re.sub(WRONG, "  4e-07", text, flags=re.MULTILINE)


def _of_2026() -> str:
    """The names of version and program, longer device addresses, memory, and a closing line."""
    text = PLAIN.replace("[0x", "[000f:01:")
    opening = (
        "# nccl-tests version 2.20.0 (b4d5bee) nccl-headers=23102 nccl-library=23102\n"
        "# Collective test starting: all_reduce_perf\n"
    )
    return opening + text + "# Collective test concluded: all_reduce_perf\n\n"


def _per_iteration() -> str:
    """Four columns more after each group, and a timestamp (-P and -T)."""
    text = PLAIN.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%")
    text = text.replace("out-of-place ", "out-of-place (+ per-iteration) ")
    text = text.replace("in-place          \n", "in-place (+ per-iteration)\n")
    text = re.sub(WRONG, "      0 1.0 2.0 2.0 3.1", text, flags=re.MULTILINE)
    text = re.sub(r"(?m)^(#       size.*)$", r"\1 timestamp", text)
    return re.sub(r"(?m)^( +\d.*)$", r"\1  2026-11-30 05:12:33", text)


def _one_column(title: str, *, keeps_first: bool) -> str:
    def shorter(line: str) -> str:
        words = line.split()
        if words[:1] != ["#"] and len(words) == 13:
            return " ".join(words[:9] if keeps_first else words[:5] + words[9:])
        if "algbw" in words:
            return " ".join(words[:10])
        return f"#    {title}" if "out-of-place" in words else line

    return "\n".join(map(shorter, PLAIN.splitlines()))


OUTPUTS = {
    "plain": Printed(PLAIN),
    "2020": Printed(_of_2020()),
    "2026": Printed(_of_2026()),
    "per_iteration": Printed(_per_iteration()),
    "mpirun_tags": Printed(_every_line("[1,0]<stdout>:")),
    "mpirun_short_tags": Printed(_every_line("[0] ")),
    "srun_labels": Printed(_every_line(" 0: ")),
    "windows": Printed(PLAIN.replace("\n", "\r\n")),
    "nccl_messages": Printed(
        PLAIN.replace(
            "     1048576",
            "worker-0:62:114 [2] NCCL INFO comm 0xb1a0 rank 6 nranks 8 cudaDev 2\n"
            "NCCL version 2.19.3+cuda12.3\n"
            "Warning: Permanently added '10.0.0.1' (ED25519) to the list of known hosts.\n"
            "     1048576",
        )
    ),
    "unchecked": Printed(re.sub(WRONG, "    N/A", PLAIN, flags=re.MULTILINE)),
    "no_ranks": Printed(_without(r"^#  Rank.*\n"), num_ranks=None),
    "list_cut": Printed(re.sub(r"(?m)^#  Rank  7.*$", "#  Rank  7 Gro...", PLAIN), num_ranks=None),
    "gap": Printed(_without(r"^#  Rank  3.*\n"), num_ranks=None),
    "twice": Printed(
        PLAIN + PLAIN.replace("1089.6  123.18  215.57", "1189.6  112.83  197.45"),
        out_of_place=(0.04214, 0.05512, (1.0896 + 1.1896) / 2),
    ),
    "bfloat16": Printed(PLAIN.replace("    float", " bfloat16")),
    "only_out_of_place": Printed(_one_column("out-of-place", keeps_first=True), in_place=()),
    "only_in_place": Printed(_one_column("in-place", keeps_first=False), out_of_place=()),
}
