"""The same numbers in JSON, CSV and Parquet."""

import io
import json
from decimal import Decimal
from hashlib import sha256

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.language import LANGUAGES
from service.reports.loss_report import LossReport, RemediesLeftOut
from service.reports.report_formats import FORMATS
from service.reports.report_table import report_csv, report_json, report_parquet
from service.reports.withheld_report import without_costs
from tests.reports import loss_reports
from tests.reports.export_readers import READERS, bits

NUMBERS = (
    "step_mean_ms",
    "ideal_step_ms",
    "efficiency_fraction",
    "gpu_hours_available",
    "gpu_hours_lost",
    "gpu_hours_lost_p10",
    "gpu_hours_lost_p90",
    "gpu_hours_lost_se",
    "gpu_hours_lost_per_30_days",
)
REPORTS = {
    "realistic": loss_reports.realistic(),
    "first night": loss_reports.without_baseline(),
    "without rate": loss_reports.without_rate(),
    "extreme": structs.replace(loss_reports.extreme(), items=loss_reports.extreme().items[:7]),
    "withheld": without_costs(loss_reports.realistic()),
}


@pytest.mark.parametrize("name", REPORTS)
def test_all_formats_have_the_same_numbers(name: str) -> None:
    report = REPORTS[name]
    document = json.loads(FORMATS["json"].write(report, "en"))
    text = READERS["csv"](FORMATS["csv"].write(report, "en"))
    typed = READERS["parquet"](FORMATS["parquet"].write(report, "fr"))
    assert len(document["items"]) == len(text) == len(typed) == len(report.items)
    for item, line, row in zip(document["items"], text, typed, strict=True):
        for column in NUMBERS:
            assert bits(item[column]) == bits(line[column]) == bits(row[column]), column
        for column in ATTRIBUTION_COLUMNS:
            hours = None if item["missing"] else item["causes"].get(column, 0.0)
            assert bits(hours) == bits(line[column]) == bits(row[column]), column
        for side in ("past", "difference"):
            moved = (item["change"] or {}).get(side)
            column = f"{side}_gpu_hours_lost_per_30_days"
            assert bits(moved) == bits(line[column]) == bits(row[column])
        for column in ("cost_of_loss", "cost_of_loss_per_30_days"):
            amount = item[column] and item[column]["amount"]
            assert (amount or "") == line[column]
            assert row[column] == (None if amount is None else Decimal(amount))
        assert line["custom_id"] == row["custom_id"] == item["custom_id"]
        assert line["start_on"] == row["start_on"].isoformat() == item["start_on"]
        assert line["cost_status"] == row["cost_status"] == item["cost_status"]


def test_rows_say_what_they_belong_to() -> None:
    report = loss_reports.realistic()
    rows = READERS["csv"](report_csv(report))
    assert rows[0]["report_id"] == str(report.report_id)
    assert rows[0]["name"] == "H100 production"
    assert (rows[0]["currency"], rows[0]["cost_of_loss"]) == ("EUR", "376798.52")
    assert rows[0]["past_cost_of_loss_per_30_days"] == "321627.56"
    assert rows[0]["difference_cost_of_loss_per_30_days"] == "55170.96"
    assert (rows[-1]["missing"], rows[-1]["gpu_hours_lost"], rows[-1]["currency"]) == (
        "failed",
        "",
        "",
    )
    withheld = READERS["csv"](report_csv(without_costs(report)))
    assert {row["cost_of_loss"] for row in withheld} == {""}
    assert {row["currency"] for row in withheld} == {""}


def test_hostile_names_are_no_formula() -> None:
    rows = READERS["csv"](report_csv(REPORTS["extreme"]))
    assert rows[1]["name"].startswith("'=cmd|")
    typed = READERS["parquet"](report_parquet(REPORTS["extreme"]))
    assert typed[1]["name"].startswith("=cmd|")


def test_a_parquet_file_says_what_it_is() -> None:
    report = loss_reports.realistic()
    schema = pq.read_schema(io.BytesIO(report_parquet(report)))
    units = {name: (schema.field(name).metadata or {})[b"unit"] for name in NUMBERS}
    assert (units["gpu_hours_lost"], units["step_mean_ms"]) == (b"GPU-hours", b"ms")
    facts = schema.metadata
    assert facts[b"trainard.report_id"] == str(report.report_id).encode()
    assert facts[b"trainard.report_sha256"] == sha256(report_json(report)).hexdigest().encode()
    assert facts[b"trainard.model_version"] == b"1.9"
    assert facts[b"trainard.is_forecast"] == b"true"
    assert facts[b"trainard.baseline_batch_id"] == loss_reports.BASELINE.encode()
    first = pq.read_schema(io.BytesIO(report_parquet(loss_reports.without_baseline()))).metadata
    assert first[b"trainard.baseline_batch_id"] == b""


def test_json_is_the_document_itself() -> None:
    report = loss_reports.extreme()
    assert msgspec.json.decode(report_json(report), type=LossReport) == report
    money = json.loads(report_json(report))["items"][0]["cost_of_loss_per_30_days"]
    assert money == {"amount": "123456789012345678901234.50", "currency": "EUR"}


def test_every_format_writes_in_every_language() -> None:
    assert list(FORMATS) == ["html", "json", "csv", "parquet", "focus"]
    report = loss_reports.all_failed()
    for language in LANGUAGES:
        for name, shape in FORMATS.items():
            assert isinstance(shape.write(report, language), bytes), name
    assert FORMATS["focus"].extension == "forecast.focus.csv"
    assert FORMATS["html"].media_type == "text/html; charset=utf-8"


def test_what_no_remedies_were_ranked_of_stands_beside_the_item() -> None:
    report = loss_reports.realistic()
    second = report.items[1].custom_id
    left_out = [RemediesLeftOut(custom_id=second, name="", reason="they would take too long")]
    told = structs.replace(report, remedies_left_out=left_out)
    assert json.loads(report_json(told))["remedies_left_out"] == [msgspec.to_builtins(left_out[0])]
    for read in (
        READERS["csv"](FORMATS["csv"].write(told, "en")),
        READERS["parquet"](FORMATS["parquet"].write(told, "fr")),
    ):
        reasons = [row["remedies_left_out"] for row in read]
        assert reasons[1] == "they would take too long"
        assert not any([reasons[0], *reasons[2:]])
