"""Which kernels communicate, by their names and by what the profiler says beside them.

NCCL: `ncclKernel_…` (to 2.18), `ncclDevKernel_…` (since), `ncclSymk…`, `ncclAllReduce…` (2.4).
AMD: RCCL's kernels are named as NCCL's or `rccl_main_kernel`, `mscclKernel_…`; a name with `hip` in
it says nothing, since every kernel of ROCm may have it. Others: `hccl`, `oneccl`. PyTorch since 2.3
writes `Collective name` beside a communication kernel whatever it is called.
"""

import re
from enum import IntEnum
from typing import Any

from msgspec import Struct, field

_COMMUNICATION = re.compile(r"(?:void )?(?:nccl|rccl|msccl|hccl|oneccl)", re.IGNORECASE)
_MEMORY_NAME = re.compile(r"(?:Memcpy|Memset|CopyDeviceTo|CopyHostTo|__amd_rocclr_(?:copy|fill))")
_MEMORY_CATEGORIES = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
KERNEL_CATEGORIES = frozenset({"kernel"}) | _MEMORY_CATEGORIES
# What a kernel that communicates under a strange name is likely to have in it.
_SUSPECT = re.compile(
    r"ccl|reduce_?scatter|all_?gather|all_?reduce|send_?recv|all_?to_?all", re.IGNORECASE
)
LONGEST_NAME = 200


class Kind(IntEnum):
    """What a kernel does."""

    COMPUTE = 0
    COMMUNICATION = 1
    MEMORY = 2


class Arguments(Struct, frozen=True, gc=False):
    """What is looked at of the arguments beside an event, of whatever type it is."""

    correlation: Any = None
    collective: Any = field(name="Collective name", default=None)
    group: Any = field(name="Process Group Name", default=None)
    size: Any = field(name="Group size", default=None)
    elements: Any = field(name="In msg nelems", default=None)


NO_ARGUMENTS = Arguments()


def kind_of(category: str, name: str, arguments: Arguments) -> Kind:
    """Kind of a kernel; `category` in lower case."""
    if category in _MEMORY_CATEGORIES:
        return Kind.MEMORY
    if _COMMUNICATION.match(name) or arguments.collective is not None:
        return Kind.COMMUNICATION
    # ROCm lists its copies as kernels
    return Kind.MEMORY if _MEMORY_NAME.match(name) else Kind.COMPUTE


def collective_name(name: str, arguments: Arguments) -> str:
    """The kernel's name without its parameters, with its process group where that is known.

    Also with the number of elements of a reduction, which is that of all of its ranks. Equal names
    in equal order are one collective on all ranks of the group.
    """
    short = name.split("(", 1)[0].removeprefix("void ")[:LONGEST_NAME]
    group, elements = arguments.group, arguments.elements
    if isinstance(group, str):
        short = f"{short} of group {group[:LONGEST_NAME]}"
    is_reduction = isinstance(arguments.collective, str) and "reduce" in arguments.collective
    if is_reduction and isinstance(elements, int) and 0 < elements < 2**63:
        short = f"{short} of {elements} elements"
    return short


def group_size(arguments: Arguments) -> int:
    """Ranks of the kernel's process group; 0 where the trace does not say."""
    size = arguments.size
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**31 else 0


def examples(names: list[str], most: int = 5) -> list[str]:
    """A few of the names, those first that look like communication."""
    likely = [name for name in names if _SUSPECT.search(name)]
    return [name[:80] for name in [*likely, *(n for n in names if n not in set(likely))][:most]]
