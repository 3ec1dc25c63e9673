"""Pipelines that were searched, as they are printed: a table, CSV, JSON."""

from collections.abc import Callable
from decimal import Decimal
from typing import BinaryIO

import msgspec
import numpy as np

from service.jobs.pipeline_search_documents import PipelineSearchOut, SizedOut
from service.reports.digits import NOTHING, amount, gpu_hours, milliseconds, percent, signed
from service.reports.export_fields import ChunkColumn, Field
from service.reports.export_text import write_csv
from service.reports.money import Money
from service.reports.tables import Heading, text_table

COUNTS = ("stages", "microbatches", "chunks_per_stage", "replicas")
NUMBERS = (
    "microbatch_size_ratio",
    "gpu_hours_lost",
    "gpu_hours_lost_se",
    "gpu_hours_given_back",
    "gpu_hours_per_1000_steps",
    "step_mean_ms",
    "efficiency_fraction",
    "bubble_fraction",
    "busy_gpus_mean",
    "peak_microbatches_in_flight",
    "activation_ratio",
    "parameter_ratio",
)
FIELDS = (
    Field(name="schedule", kind="text"),
    *(Field(name=name, kind="int64") for name in COUNTS),
    *(Field(name=name, kind="float64") for name in NUMBERS),
    Field(name="money_lost", kind="decimal"),
    Field(name="money_given_back", kind="decimal"),
    Field(name="currency", kind="text"),
    Field(name="overrides", kind="text"),
)


def write_table(found: PipelineSearchOut, out: BinaryIO) -> None:
    """A line a pipeline, the least lost first; then what was left out, and why."""
    lost = found.result.gpu_hours_lost or 0.0
    out.write(
        f"{'lost' if lost >= 0 else 'gained'} in {found.scenario['period_days']} days: "
        f"{gpu_hours(abs(lost))} of {gpu_hours(found.result.gpu_hours_available)} GPU-hours\n"
        f"{found.evaluated} of {found.candidates} pipelines evaluated, left out: "
        f"{found.left_out_by_memory} by memory, {found.left_out_by_rules} by rules, "
        f"{found.left_out_by_time} for want of time\n\n".encode()
    )
    priced = any(row.money_lost for row in found.pipelines)
    headings = [
        Heading("schedule", words=True),
        Heading("P"),
        Heading("M"),
        Heading("V"),
        Heading("replicas"),
        Heading("lost [GPU-hours]"),
        Heading("given back [GPU-hours]"),
        Heading("1000 steps [GPU-hours]"),
        Heading("step [ms]"),
        Heading("bubble [%]"),
        Heading("in flight"),
        Heading("activations [x]"),
        Heading("parameters [x]"),
        *([Heading("lost"), Heading("given back")] if priced else []),
    ]
    rows = [_cells(row, priced=priced) for row in found.pipelines]
    out.write(f"{text_table(headings, rows)}\n".encode())
    out.writelines(f"note: {notice.detail}\n".encode() for notice in found.warnings)
    out.writelines(
        f"left out: {left_out.count}, such as: {left_out.detail}\n".encode()
        for left_out in found.left_out
    )


def write_comma_separated(found: PipelineSearchOut, out: BinaryIO) -> None:
    """A header and one line a pipeline, the least lost first."""
    rows = found.pipelines
    table: dict[str, ChunkColumn] = {
        "schedule": [row.schedule for row in rows],
        **{name: np.array([getattr(row, name) for row in rows], np.int64) for name in COUNTS},
        **{name: np.array([getattr(row, name) for row in rows], np.float64) for name in NUMBERS},
        "money_lost": [_decimal(row.money_lost) for row in rows],
        "money_given_back": [_decimal(row.money_given_back) for row in rows],
        "currency": [None if row.money_lost is None else row.money_lost.currency for row in rows],
        "overrides": [msgspec.json.encode(row.overrides).decode() for row in rows],
    }
    out.writelines(write_csv(FIELDS, [table]))


def write_json(found: PipelineSearchOut, out: BinaryIO) -> None:
    """The document that the service answers."""
    out.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


FORMATS: dict[str, Callable[[PipelineSearchOut, BinaryIO], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_comma_separated,
}


def _cells(row: SizedOut, *, priced: bool) -> list[str]:
    lost = gpu_hours(row.gpu_hours_lost)
    if row.gpu_hours_lost_se:
        lost += f" ± {gpu_hours(row.gpu_hours_lost_se)}"
    cells = [
        row.schedule,
        f"{row.stages}",
        f"{row.microbatches}",
        f"{row.chunks_per_stage}",
        f"{row.replicas}",
        lost,
        signed(gpu_hours(row.gpu_hours_given_back)),
        gpu_hours(row.gpu_hours_per_1000_steps),
        milliseconds(row.step_mean_ms),
        percent(row.bubble_fraction),
        f"{row.peak_microbatches_in_flight:g}",
        f"{row.activation_ratio:.3g}",
        f"{row.parameter_ratio:.3g}",
    ]
    return [*cells, _money(row.money_lost), _money(row.money_given_back)] if priced else cells


def _decimal(money: Money | None) -> Decimal | None:
    return None if money is None else Decimal(money.amount)


def _money(money: Money | None) -> str:
    return NOTHING if money is None else f"{amount(money.amount)} {money.currency}"
