"""Remedies as a table, CSV or JSON."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import BinaryIO

import msgspec
import numpy as np

from service.jobs.remedy_documents import RemediesOut, RemedyOut
from service.reports.digits import NOTHING, amount, gpu_hours, milliseconds, percent, signed
from service.reports.export_fields import ChunkColumn, Field
from service.reports.export_text import write_csv
from service.reports.money import Money
from service.reports.tables import Heading, text_table

NUMBERS = (
    "gpu_hours_given_back",
    "gpu_hours_given_back_se",
    "gpu_hours_held_change",
    "gpu_hours_effective_change",
    "gpu_hours_saved_for_equal_work",
    "step_mean_ms_after",
    "efficiency_fraction_after",
    "useful_compute_fraction_after",
    "break_even_extra_steps_fraction",
    "break_even_gpu_hours",
)
OF_MEMORY = (
    "peak_microbatches_in_flight_before",
    "peak_microbatches_in_flight_after",
    "activation_ratio",
    "parameter_ratio",
)
FIELDS = (
    Field(name="remedy", kind="text"),
    Field(name="setting", kind="text"),
    Field(name="count", kind="int64"),
    *(Field(name=name, kind="float64") for name in (*NUMBERS, *OF_MEMORY)),
    Field(name="money_given_back", kind="decimal"),
    Field(name="money_saved_for_equal_work", kind="decimal"),
    Field(name="break_even_price", kind="decimal"),
    Field(name="currency", kind="text"),
    Field(name="overrides", kind="text"),
)
PENALTY = (
    "waiting less often may need more steps for the same progress, which is not assumed here: with "
    "more of them than the break-even extra steps it does not pay; extra_steps_fraction takes yours"
)
_WORDS: Mapping[str, str] = {
    "count": "{:.0f} GPUs",
    "mean_hours": "{:g} h",
    "hours_fraction": "{:g} x the hours",
    "cv_fraction": "{:g} x the cv",
    "num_buckets": "{:.0f} buckets",
    "contention_fraction": "contention {:g}",
    "steps": "every {:.0f} steps",
    "extra_steps_fraction": "{:g} more steps",
    "intra_link": "{}",
    "compression_ratio": "{:g} times smaller",
    "compression_ms": "{:g} ms",
    "microbatch_factor": "{:.0f} times as many",
    "microbatches": "{:.0f} micro-batches",
    "chunks_per_stage": "{:.0f} chunks",
    "schedule": "{}",
    "stages": "{:.0f} stages",
}

_SINGULAR: Mapping[str, str] = {
    "1 GPUs": "1 GPU",
    "1 buckets": "1 bucket",
    "1 micro-batches": "1 micro-batch",
    "1 chunks": "1 chunk",
    "1 stages": "1 stage",
}


def write_table(found: RemediesOut, out: BinaryIO) -> None:
    """A line a remedy, the best one first; then what does not apply, and why."""
    lost = found.result.gpu_hours_lost or 0.0
    out.write(
        f"{'lost' if lost >= 0 else 'gained'} in {found.scenario['period_days']} days: "
        f"{gpu_hours(abs(lost))} of {gpu_hours(found.result.gpu_hours_available)} "
        "GPU-hours\n\n".encode()
    )
    # Only where something waits less often than every step.
    gains = any(remedy.break_even_extra_steps_fraction is not None for remedy in found.remedies)
    piped = any(remedy.activation_ratio is not None for remedy in found.remedies)
    priced = any(remedy.money_given_back for remedy in found.remedies)
    headings = [
        Heading("remedy", words=True),
        Heading("setting", words=True),
        Heading("given back [GPU-hours]"),
        Heading("saved, same work [GPU-hours]"),
        Heading("held [GPU-hours]"),
        Heading("step [ms]"),
        Heading("efficiency [%]"),
        Heading("useful compute [%]"),
        *([Heading("break-even extra steps [%]")] if gains else []),
        Heading("break-even of one [GPU-hours]"),
        *(
            [Heading("in flight"), Heading("activations [x]"), Heading("parameters [x]")]
            if piped
            else []
        ),
        *(
            [Heading("given back"), Heading("saved, same work"), Heading("break-even price of one")]
            if priced
            else []
        ),
    ]
    rows = [_cells(remedy, gains=gains, piped=piped, priced=priced) for remedy in found.remedies]
    out.write(f"{text_table(headings, rows)}\n".encode())
    if gains:
        out.write(f"note: {PENALTY}\n".encode())
    for notice in found.warnings:
        place = notice.pointer.rsplit("/", maxsplit=1)[-1]
        about = f"{_named(found.remedies[int(place)])}: " if place.isdigit() else ""
        out.write(f"note: {about}{notice.detail}\n".encode())
    for left_out in found.not_applicable:
        said = f"{left_out.kind} {_setting(left_out.setting)}".strip()
        out.write(f"not applicable: {said}: {left_out.reason}\n".encode())


def write_comma_separated(found: RemediesOut, out: BinaryIO) -> None:
    """A header and one line a remedy, the best one first."""
    remedies = found.remedies
    table: dict[str, ChunkColumn] = {
        "remedy": [remedy.kind for remedy in remedies],
        "setting": [_json(remedy.setting) for remedy in remedies],
        "count": np.array([remedy.count for remedy in remedies], dtype=np.int64),
        **{
            name: np.array([getattr(each, name) for each in remedies], dtype=np.float64)
            for name in (*NUMBERS, *OF_MEMORY)
        },
        "money_given_back": [_decimal(remedy.money_given_back) for remedy in remedies],
        "money_saved_for_equal_work": [
            _decimal(remedy.money_saved_for_equal_work) for remedy in remedies
        ],
        "break_even_price": [_decimal(remedy.break_even_price) for remedy in remedies],
        "currency": [_currency(remedy.money_given_back) for remedy in remedies],
        "overrides": [_json(remedy.overrides) for remedy in remedies],
    }
    out.writelines(write_csv(FIELDS, [table]))


def write_json(found: RemediesOut, out: BinaryIO) -> None:
    """The document that the service answers."""
    out.write(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


FORMATS: dict[str, Callable[[RemediesOut, BinaryIO], None]] = {
    "table": write_table,
    "json": write_json,
    "csv": write_comma_separated,
}


def _cells(remedy: RemedyOut, *, gains: bool, piped: bool, priced: bool) -> list[str]:
    given_back = signed(gpu_hours(remedy.gpu_hours_given_back))
    if remedy.gpu_hours_given_back_se:
        given_back += f" ± {gpu_hours(remedy.gpu_hours_given_back_se)}"
    cells = [
        remedy.kind,
        _setting(remedy.setting),
        given_back,
        signed(gpu_hours(remedy.gpu_hours_saved_for_equal_work)),
        signed(gpu_hours(remedy.gpu_hours_held_change)),
        milliseconds(remedy.step_mean_ms_after),
        percent(remedy.efficiency_fraction_after),
        percent(remedy.useful_compute_fraction_after),
        *([percent(remedy.break_even_extra_steps_fraction)] if gains else []),
        gpu_hours(remedy.break_even_gpu_hours),
    ]
    if piped:
        cells += _memory(remedy)
    if priced:
        cells += [
            _money(remedy.money_given_back),
            _money(remedy.money_saved_for_equal_work),
            _money(remedy.break_even_price),
        ]
    return cells


def _memory(remedy: RemedyOut) -> list[str]:
    """Micro-batches in flight before and after, and what a GPU holds after over before."""
    if remedy.activation_ratio is None:
        return [NOTHING] * 3
    before = remedy.peak_microbatches_in_flight_before
    after = remedy.peak_microbatches_in_flight_after
    return [
        f"{before:g} to {after:g}",
        f"{remedy.activation_ratio:.3g}",
        f"{remedy.parameter_ratio:.3g}",
    ]


def _named(remedy: RemedyOut) -> str:
    return f"{remedy.kind} {_setting(remedy.setting)}".strip()


def _setting(setting: Mapping[str, float | str] | None) -> str:
    return ", ".join(_said(name, value) for name, value in (setting or {}).items())


def _said(name: str, value: float | str) -> str:
    said = _WORDS[name].format(value)
    return _SINGULAR.get(said, said)


def _json(value: object) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _decimal(money: Money | None) -> Decimal | None:
    return None if money is None else Decimal(money.amount)


def _currency(money: Money | None) -> str | None:
    return None if money is None else money.currency


def _money(money: Money | None) -> str:
    return NOTHING if money is None else f"{amount(money.amount)} {money.currency}"
