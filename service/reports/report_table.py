"""The items of a report as a table: CSV and Parquet with the same numbers, units in the names."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from hashlib import sha256

import msgspec
import numpy as np
from msgspec import Struct

from service.model.results import ATTRIBUTION_COLUMNS, COLUMNS
from service.reports.export_fields import ChunkColumn, Field, FieldKind
from service.reports.export_text import write_csv
from service.reports.loss_report import LossReport, ReportItem
from service.reports.money import Money

Value = str | float | date | Decimal | None


class TableColumn(Struct, frozen=True):
    """A column and how an item fills it."""

    field: Field
    value: Callable[[ReportItem], Value]


def report_csv(report: LossReport) -> bytes:
    """RFC 4180, safe to be opened by a spreadsheet program: one row an item."""
    columns = table_columns(report)
    return b"".join(write_csv([column.field for column in columns], [_chunk(report, columns)]))


def report_parquet(report: LossReport) -> bytes:
    """Typed columns; units and sentences are metadata of the columns, facts of the file."""
    # pyarrow takes 65 ms to load: only who writes Parquet pays that.
    from service.reports.export_arrow import write_parquet  # noqa: PLC0415

    columns = table_columns(report)
    return b"".join(
        write_parquet(
            [column.field for column in columns], [_chunk(report, columns)], report_facts(report)
        )
    )


def report_json(report: LossReport) -> bytes:
    """The document itself: every format is made from it."""
    return msgspec.json.encode(report)


def report_facts(report: LossReport) -> Mapping[str, str]:
    """What a file says about itself."""
    return {
        "schema": report.schema,
        "report_id": str(report.report_id),
        "report_sha256": sha256(report_json(report)).hexdigest(),
        "made_at": report.made_at.isoformat(),
        "batch_id": str(report.batch.batch_id),
        "baseline_batch_id": str(report.baseline.batch_id) if report.baseline else "",
        "model_version": report.batch.model_version,
        "input_digest": report.batch.input_digest,
        "trainard_version": report.reproduce.trainard_version,
        "is_forecast": "true",
    }


def table_columns(report: LossReport) -> tuple[TableColumn, ...]:
    """What identifies an item, its numbers, its money, its GPU-hours by cause, and its remedies."""
    left_out = {one.custom_id: one.reason for one in report.remedies_left_out}
    return (
        _text("report_id", "Id of the report.", lambda _: str(report.report_id)),
        _text("batch_id", "Id of the batch.", lambda _: str(report.batch.batch_id)),
        _text("result_id", "Id of the item's headline point.", lambda item: item.result_id),
        _text("custom_id", "Id of the item in its batch.", lambda item: item.custom_id),
        _text("name", "Name of the scenario.", lambda item: item.name),
        _text("profile", "Slug of the cluster profile.", lambda item: item.profile),
        _number("profile_revision", "", "Its revision.", "int64", lambda i: i.profile_revision),
        _text("missing", "Why the item has no numbers.", lambda item: item.missing),
        _text("gpu_type", "Type of its GPUs.", lambda item: item.gpu_type),
        _text("cost_center", "Cost center that is charged.", lambda item: item.cost_center),
        TableColumn(
            Field(name="start_on", kind="date", sentence="First day of the loss window."),
            lambda item: item.start_on,
        ),
        _number("period_days", "days", "Days of the window.", "int64", lambda i: i.period_days),
        _number("num_gpus", "GPUs", "GPUs held.", "int64", lambda item: item.num_gpus),
        _float("step_mean_ms", "ms", "Mean step.", lambda item: item.step_mean_ms),
        _float("ideal_step_ms", "ms", "Step if nobody waits.", lambda item: item.ideal_step_ms),
        _float("efficiency_fraction", "", "Ideal over mean.", lambda i: i.efficiency_fraction),
        _hours("gpu_hours_available", "Held, over the window.", lambda i: i.gpu_hours_available),
        _hours("gpu_hours_lost", "Lost, over the window.", lambda item: item.gpu_hours_lost),
        _hours("gpu_hours_lost_p10", "Its 10 % quantile.", lambda item: item.gpu_hours_lost_p10),
        _hours("gpu_hours_lost_p90", "Its 90 % quantile.", lambda item: item.gpu_hours_lost_p90),
        _hours("gpu_hours_lost_se", "Its standard error.", lambda item: item.gpu_hours_lost_se),
        _hours("gpu_hours_lost_per_30_days", "On 30 days.", lambda i: i.gpu_hours_lost_per_30_days),
        _text("method", "How it was computed.", lambda item: item.method),
        _hours("past_gpu_hours_lost_per_30_days", "Of the baseline.", lambda i: _moved(i, "past")),
        _hours(
            "difference_gpu_hours_lost_per_30_days",
            "Less the baseline's.",
            lambda item: _moved(item, "difference"),
        ),
        _float(
            "relative_gpu_hours_lost_fraction",
            "",
            "Difference over the baseline's size.",
            lambda item: _moved(item, "relative"),
        ),
        _money("cost_of_loss", "Of the window.", lambda item: item.cost_of_loss),
        _money("cost_of_loss_per_30_days", "On 30 days.", lambda i: i.cost_of_loss_per_30_days),
        _money("past_cost_of_loss_per_30_days", "Of the baseline.", _past_cost),
        _money("difference_cost_of_loss_per_30_days", "Less the baseline's.", _cost_difference),
        _text("currency", "ISO 4217 code of the money.", _currency),
        _text("cost_status", "Why there is money or none.", lambda item: item.cost_status.value),
        _number(
            "unpriced_days", "days", "Days without a rate.", "int64", lambda i: i.unpriced_days
        ),
        *(_cause(column.name, column.sentence) for column in COLUMNS if _is_cause(column.name)),
        _text(
            "remedies_left_out",
            "Why none were ranked, of one that loses most.",
            lambda item: left_out.get(item.custom_id),
        ),
    )


def _chunk(report: LossReport, columns: tuple[TableColumn, ...]) -> dict[str, ChunkColumn]:
    return {
        column.field.name: _filled(column.field, [column.value(item) for item in report.items])
        for column in columns
    }


def _filled(field: Field, values: list[Value]) -> ChunkColumn:
    """The values as the writers want them: numbers as floats with NaN for null."""
    if field.kind in {"float64", "int64"}:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return [value if isinstance(value, str | date | Decimal) else None for value in values]


def _is_cause(name: str) -> bool:
    return name in ATTRIBUTION_COLUMNS


def _cause(name: str, sentence: str) -> TableColumn:
    """A cause that an item with numbers does not have is 0, not unknown."""
    return _hours(name, sentence, lambda item: None if item.missing else item.causes.get(name, 0.0))


def _moved(item: ReportItem, side: str) -> float | None:
    found: float | None = getattr(item.change, side, None)
    return found


def _past_cost(item: ReportItem) -> Money | None:
    return item.cost_change.past if item.cost_change else None


def _cost_difference(item: ReportItem) -> Money | None:
    return item.cost_change.difference if item.cost_change else None


def _currency(item: ReportItem) -> str | None:
    amount = item.cost_of_loss or _past_cost(item)
    return amount.currency if amount else None


def _text(name: str, sentence: str, value: Callable[[ReportItem], str | None]) -> TableColumn:
    return TableColumn(Field(name=name, kind="text", sentence=sentence), value)


def _number(
    name: str,
    unit: str,
    sentence: str,
    kind: FieldKind,
    value: Callable[[ReportItem], float | None],
) -> TableColumn:
    return TableColumn(Field(name=name, kind=kind, unit=unit, sentence=sentence), value)


def _float(
    name: str, unit: str, sentence: str, value: Callable[[ReportItem], float | None]
) -> TableColumn:
    return _number(name, unit, sentence, "float64", value)


def _hours(name: str, sentence: str, value: Callable[[ReportItem], float | None]) -> TableColumn:
    return _number(name, "GPU-hours", sentence, "float64", value)


def _money(name: str, sentence: str, value: Callable[[ReportItem], Money | None]) -> TableColumn:
    def amount(item: ReportItem) -> Decimal | None:
        found = value(item)
        return Decimal(found.amount) if found else None

    return TableColumn(Field(name=name, kind="decimal", unit="currency", sentence=sentence), amount)
