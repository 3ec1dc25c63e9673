"""Links and measured collectives: what a caller sends and what it gets back."""

from typing import Annotated

from msgspec import Meta, Struct

from service.jobs.batch_documents import Notice
from service.model.exchange.nccl_lines import MeasuredColumn
from service.model.exchange.nccl_tests import MAX_TEXT
from service.model.exchange.presets import LinkValues
from service.model.parts.communication import Measured


class LinkPresetList(Struct, frozen=True, kw_only=True):
    """Dated links with their sources."""

    items: list[LinkValues]


class MeasurementIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output of nccl-tests or rccl-tests."""

    text: Annotated[
        str,
        Meta(
            max_length=MAX_TEXT,
            description="What all_reduce_perf printed, whole: with the list of ranks, the header "
            "and the last lines.",
        ),
    ]
    column: Annotated[
        MeasuredColumn, Meta(description="Whose times to take; frameworks reduce in place.")
    ] = "in_place"


class MeasurementOut(Struct, frozen=True, kw_only=True):
    """A curve for a scenario's `communication`; the message is yours to add."""

    communication: Annotated[
        Measured,
        Meta(description="Add message_bytes, or parameters and bytes_per_parameter, and use it."),
    ]
    column: MeasuredColumn
    num_ranks: Annotated[
        int | None, Meta(description="Ranks of the measurement; null: its list is missing or cut.")
    ]
    num_rows: Annotated[
        int, Meta(description="Results that were used; of those of one size, the median.")
    ]
    busbw_gigabytes_per_s: Annotated[
        list[float], Meta(description="Bus bandwidth of each size, as printed.")
    ]
    largest_busbw_gigabytes_per_s: float
    warnings: list[Notice]
