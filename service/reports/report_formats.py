"""The formats of a report: all are made from one document, so all have the same numbers."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from service.reports.focus import report_focus
from service.reports.language import Language
from service.reports.loss_report import LossReport
from service.reports.report_html import report_html
from service.reports.report_table import report_csv, report_json, report_parquet


class ReportFormat(Struct, frozen=True):
    """A format: what HTTP calls it, how its files end, and who writes it."""

    media_type: str
    extension: str
    write: Callable[[LossReport, Language], bytes]


def _any_language(write: Callable[[LossReport], bytes]) -> Callable[[LossReport, Language], bytes]:
    """A format for programs: it has no language."""
    return lambda report, _: write(report)


FORMATS: Mapping[str, ReportFormat] = {
    "html": ReportFormat("text/html; charset=utf-8", "html", report_html),
    "json": ReportFormat("application/json", "json", _any_language(report_json)),
    "csv": ReportFormat(
        "text/csv; charset=utf-8; header=present", "csv", _any_language(report_csv)
    ),
    "parquet": ReportFormat(
        "application/vnd.apache.parquet", "parquet", _any_language(report_parquet)
    ),
    # A forecast says so in its name, and is never mixed up with what was billed.
    "focus": ReportFormat(
        "text/csv; charset=utf-8; header=present",
        "forecast.focus.csv",
        _any_language(report_focus),
    ),
}
