"""Why timings are refused: never a silent fit."""

from typing import Literal

from msgspec import Struct

RefusalCode = Literal[
    # what arrived
    "unknown_format",
    "unreadable_file",
    "file_too_large",
    "mixed_formats",
    "missing_column",
    "unknown_column",
    "bad_value",
    "implausible_units",
    "sentinel_value",
    "duplicate_row",
    "unknown_kernel_names",
    "no_steps",
    # what it says
    "includes_wait",
    "one_rank_only",
    "too_few_steps",
    "too_few_ranks",
    "missing_ranks",
    "too_many_cells",
    "no_variation",
    "inconsistent_times",
    "not_a_scenario",
]


class Fault(Struct, frozen=True, kw_only=True):
    """One reason, with the value and the rule; `file` and `line` where they are known.

    `field` is that of a document that was asked about instead of files, such as `step_p95_ms`.
    """

    code: RefusalCode
    detail: str
    file: str | None = None
    line: int | None = None
    field: str | None = None


class TimingsRefusedError(ValueError):
    """Timings that cannot be used, with every reason found."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(fault.detail for fault in faults))
        self.faults = faults


def refused(
    code: RefusalCode,
    detail: str,
    *,
    file: str | None = None,
    line: int | None = None,
    field: str | None = None,
) -> TimingsRefusedError:
    """The error with one reason."""
    return TimingsRefusedError(Fault(code=code, detail=detail, file=file, line=line, field=field))
