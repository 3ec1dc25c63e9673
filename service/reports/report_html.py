"""A report as one HTML document that needs nothing else: no script, no request, no font."""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from service.reports.chart_images import Picture, pictures
from service.reports.charts import NARROW, WIDE, Spec, Width, bars, printable
from service.reports.headline_view import about, headline_view
from service.reports.language import Language, words
from service.reports.loss_report import LossReport
from service.reports.report_sections import Section, report_facts, report_sections
from service.reports.report_view import Figure, title_of


class Drawing(Struct, frozen=True):
    """A chart as images: for a page and for a telephone."""

    figure: Figure
    wide: str | None
    narrow: str | None


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    return environment


@lru_cache(maxsize=1)
def _style() -> str:
    return files("service.reports").joinpath("templates", "report.css").read_text("utf-8")


def report_html(report: LossReport, language: Language) -> bytes:
    """The whole document."""
    spoken = words(language)
    sections = report_sections(report, spoken)
    document = (
        _environment()
        .get_template("report.html.j2")
        .render(
            language=language,
            style=_style(),
            style_sha256=b64encode(sha256(_style().encode()).digest()).decode(),
            about=about(report, spoken),
            words=spoken,
            report=report,
            name=title_of(report, spoken),
            headline=headline_view(report, spoken),
            sections=sections,
            drawings=_drawings(sections),
            facts=report_facts(report, spoken),
        )
    )
    return document.encode()


def _drawings(sections: list[Section]) -> dict[str, Drawing]:
    """All charts of the document, drawn in one go."""
    figures = [figure for section in sections for figure in section.figures]
    wanted = [
        Picture(figure.name, width.name, _spec(figure, width), figure.title, figure.description)
        for figure in figures
        for width in (WIDE, NARROW)
    ]
    images = pictures(wanted)
    return {
        figure.name: Drawing(figure, images[2 * place], images[2 * place + 1])
        for place, figure in enumerate(figures)
    }


def _spec(figure: Figure, width: Width) -> Spec:
    return bars(figure.bars, width, connected=figure.is_connected, is_paired=figure.is_paired)
