import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from msgspec import structs

from service.reports import report_html as module
from service.reports.language import LANGUAGES
from service.reports.loss_report import LossReport
from service.reports.money import Money
from service.reports.report_html import report_html
from service.reports.report_table import report_json
from service.reports.withheld_report import without_costs
from tests.reports import loss_reports

VOID = {"meta", "rect", "path", "line", "br"}
REPORTS: dict[str, LossReport] = {
    "realistic": loss_reports.realistic(),
    "first night": loss_reports.without_baseline(),
    "without rate": loss_reports.without_rate(),
    "all failed": loss_reports.all_failed(),
    "extreme": loss_reports.extreme(),
    "withheld": without_costs(loss_reports.realistic()),
}
THIN, HARD, DASH = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}", "\N{EN DASH}"


class Outline(HTMLParser):
    """What a document is made of, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag]


def outline(document: bytes) -> Outline:
    found = Outline()
    found.feed(document.decode())
    found.close()
    assert found.open == []
    return found


@pytest.fixture(scope="module")
def documents() -> dict[tuple[str, str], bytes]:
    return {
        (name, language): report_html(report, language)
        for name, report in REPORTS.items()
        for language in LANGUAGES
        if language == "en" or name in {"realistic", "withheld"}
    }


def test_documents_need_nothing_from_outside(documents: dict[tuple[str, str], bytes]) -> None:
    for document in documents.values():
        found = outline(document)
        names = {tag for tag, _ in found.tags}
        assert not names & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
        text = document.decode()
        assert "@import" not in text
        assert "url(" not in text
        for _, attributes in found.tags:
            assert not {"src", "style", "srcset"} & set(attributes)
            assert not [name for name in attributes if name.startswith("on")]
            assert (attributes.get("href") or "#").startswith("#")


def test_the_policy_lets_in_the_one_style_sheet(documents: dict[tuple[str, str], bytes]) -> None:
    text = documents["realistic", "en"].decode()
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = next(
        meta["content"]
        for meta in outline(documents["realistic", "en"]).all_of("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'"


def test_documents_can_be_read_by_everybody(documents: dict[tuple[str, str], bytes]) -> None:
    for (_, language), document in documents.items():
        found = outline(document)
        assert found.all_of("html") == [{"lang": language}]
        assert found.headings[0] == 1
        assert found.headings.count(1) == 1
        assert set(found.headings) == {1, 2}
        ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        assert len(found.all_of("caption")) == len(found.all_of("table"))
        assert all(head["scope"] in {"col", "row"} for head in found.all_of("th"))
        charts = [svg for svg in found.all_of("svg") if svg.get("role") == "img"]
        assert all(set((svg["aria-labelledby"] or "").split()) <= set(ids) for svg in charts)
        targets = {(link["href"] or "")[1:] for link in found.all_of("a")}
        assert targets <= set(ids)
        others = [svg for svg in found.all_of("svg") if svg.get("role") != "img"]
        assert all(svg.get("aria-hidden") == "true" for svg in others)


def test_the_headline_says_what_finance_asks(documents: dict[tuple[str, str], bytes]) -> None:
    text = outline(documents["realistic", "en"]).text
    for part in (
        (
            "Lost in 30 days 625,300 GPU-hours ± 400 (standard error) ▲ +19,300 (+3.2%) "
            "more is lost, against 29 Nov 2026, 01:30 UTC"
        ),
        "What it costs in 30 days €1,353,767.49 ▲ +€81,200.17 (+6.4%) costs more",
        "15.2% of 4,101,120 GPU-hours held",
        "over budget 625,300 of 600,000 GPU-hours (104% used)",
        "The change is of the 10 items that both runs have.",
        "Nightly loss, all clusters, 30 Nov 2026, 02:30 (Europe/Paris)",
        "schedule nightly-loss",
        "loss window 30 days from 1 Dec 2026",
        (
            "Of the difference of +€81,200.17, +€40,555.87 come from the GPU-hours and +€40,644.30 "
            "from the price."
        ),
        "€2.25 / GPU-h 0199c0de-0000-7000-8000-0000000000a2 H100 0 → 13 +€40,644.30",
        "Profile revision prod-h100@2 → prod-h100@3 variability.transient.cv 0.05 → 0.062 +15,664",
        "4 more rows are in the JSON document.",
        "7 smaller causes",
        f"B200 evaluation, next size eval-b200 128 30 {DASH} its point failed",
        "Replace slow GPUs H100 production 156,637 €339,118.67",
        "1 of 11 points failed: it is in no sum",
        "trainard report make --batch 0199c0de-0000-7000-8000-000000000004",
        "SHA-256 of the JSON document",
    ):
        assert part in text, part


def test_the_same_in_french(documents: dict[tuple[str, str], bytes]) -> None:
    text = documents["realistic", "fr"].decode()
    for part in (
        f"625{THIN}300 <small>heures GPU</small>",
        f"1{THIN}353{THIN}767,49{HARD}€",
        "budget dépassé",
        "Où vont les heures GPU",
        f"Points en échec{HARD}: 1 sur 11.",
        '<li lang="en">Something that no catalog has yet</li>',
        "1er déc. 2026",
    ):
        assert part in text, part


def test_withheld_money_is_said_and_not_shown(documents: dict[tuple[str, str], bytes]) -> None:
    text = outline(documents["withheld", "en"]).text
    assert "withheld, since you may not see costs" in text
    assert "What the price did to the costs is withheld" in text
    assert "Rates used withheld, since you may not see costs" in text
    for language in LANGUAGES:
        document = documents["withheld", language].decode()
        assert "€" not in document
        assert "0000000000a2" not in document


def test_nights_without_this_or_that(documents: dict[tuple[str, str], bytes]) -> None:
    first = outline(documents["first night", "en"]).text
    assert "There is nothing to compare with: there is no earlier run with results." in first
    assert "no budget is set" in first
    assert "There is no run to compare with." in first
    assert "No warnings: every point was computed" in first
    rateless = outline(documents["without rate", "en"]).text
    assert "made by hand" in rateless
    assert "What it costs in 30 days no rate" in rateless
    assert "Budget for 30 days not known" in rateless
    failed = outline(documents["all failed", "en"]).text
    assert "Lost in 30 days No item has numbers." in failed
    assert "What it costs in 30 days not computed" in failed
    assert "Budget for 30 days not known" in failed
    assert "not all items have numbers" in failed
    assert "% used" not in failed
    assert "No remedy was ranked for this report." in failed
    assert f"Share of what is held {DASH}" in failed


def test_hostile_names_are_text(documents: dict[tuple[str, str], bytes]) -> None:
    document = documents["extreme", "en"].decode()
    assert "<script" not in document
    assert "&lt;script&gt;alert(1)" in document
    assert "\u202e" not in document
    assert "\x07" not in document
    text = outline(documents["extreme", "en"]).text
    assert "950 more items are in the CSV and Parquet files." in text
    assert "Items by GPU-hours lost over their window (50 of 1,000)" in text
    assert "Gained in 30 days 100,000,000,000,000 GPU-hours no change against" in text
    assert "some days have no rate" in text
    assert "a kind of tomorrow" in text


def test_cells_of_telephones_say_what_they_are(documents: dict[tuple[str, str], bytes]) -> None:
    for document in documents.values():
        found = outline(document)
        assert all(cell["data-head"] for cell in found.all_of("td"))
        assert all(cell["role"] == "cell" for cell in found.all_of("td"))
        assert {table["role"] for table in found.all_of("table")} == {"table"}


def test_names_turn_nothing_around_them(documents: dict[tuple[str, str], bytes]) -> None:
    hebrew = "\u05d0\u05d1"
    report = loss_reports.realistic()
    items = [structs.replace(report.items[0], name=hebrew), *report.items[1:]]
    document = report_html(structs.replace(report, name=hebrew, items=items), "en").decode()
    assert f"<h1><bdi>{hebrew}, " in document
    assert f"<bdi>{hebrew}</bdi>" in document
    french = documents["realistic", "fr"].decode()
    assert "<bdi>Variabilité passagère</bdi><code>variability.transient.cv</code>" in french
    assert "<bdi>0,05 → 0,062</bdi>" in french
    # The data stay as they are.
    assert "\u202e" in json.loads(report_json(loss_reports.extreme()))["name"]


def test_variants_of_what_is_there() -> None:
    report = loss_reports.realistic()
    quiet = structs.replace(
        report,
        warnings=[],
        movers=[],
        headline=structs.replace(report.headline, volume=[], rates=[], cost_of_loss_change=None),
        items=[
            structs.replace(report.items[0], period_days=7, change=None),
            report.items[1],
        ],
    )
    text = outline(report_html(quiet, "en")).text
    assert "Nothing changed: the GPU-hours and the prices are those of the run before." in text
    assert "No item loses more or fewer GPU-hours than before." in text
    assert "loss window of several lengths from 1 Dec 2026" in text
    assert "to know about these numbers" not in text
    text = outline(report_html(without_costs(quiet), "en")).text
    # Whether the prices are what they were is withheld.
    assert "The GPU-hours are those of the run before. What the price did to" in text
    assert "the prices are those" not in text
    assert "No warnings about the numbers; those about costs are withheld." in text


def test_the_head_says_that_there_is_something_to_know(
    documents: dict[tuple[str, str], bytes],
) -> None:
    """The warnings stand far below the numbers that they are about."""
    number = len(loss_reports.realistic().warnings)
    for language, said in (("en", "things to know"), ("fr", "points à savoir")):
        before, _, after = documents["realistic", language].decode().partition('href="#warnings">')
        _, _, last = after.partition('class="to-know"><a href="#warnings">')
        assert "<nav" in before
        assert last.startswith(f"{number} {said}")
        assert last.index("</a>") < last.index("<section")


def test_rates_are_shown_that_moved() -> None:
    report = loss_reports.realistic()
    change, rate = report.headline.cost_of_loss_change, report.headline.rates[0]
    assert change is not None
    nothing = Money(amount="0.00", currency="EUR")
    rates = [
        structs.replace(rate, rate_id="same-days", past_days=13, effect=nothing),
        structs.replace(rate, rate_id="same-days-unknown", past_days=13, effect=None),
        structs.replace(rate, rate_id="same-days-other-hours", past_days=13),
        structs.replace(rate, rate_id="effect-unknown", effect=None),
    ]
    head = structs.replace(
        report.headline,
        rates=rates,
        cost_of_loss_change=structs.replace(change, status="partly_priced", difference=None),
    )
    bare = structs.replace(report, headline=head, movers=[], remedies=[], waterfall=[], items=[])
    text = outline(report_html(bare, "en")).text
    assert "same-days-other-hours H100 13 → 13 +€40,644.30" in text
    assert "effect-unknown H100 0 → 13 some days have no rate" in text
    assert "same-days " not in text
    assert "same-days-unknown" not in text
    known = structs.replace(head, cost_of_loss_change=None)
    text = outline(report_html(structs.replace(bare, headline=known), "en")).text
    assert "effect-unknown H100 0 → 13 not computed" in text


def test_a_document_without_pictures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pictures", lambda wanted: [None] * len(wanted))
    text = outline(report_html(loss_reports.realistic(), "en")).text
    assert "The picture could not be drawn; the table beside it has every number." in text
    assert "Waiting for an unlucky GPU 156,125 3.8%" in text


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted([luminance(one), luminance(other)], reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_colours_have_the_contrast_that_wcag_asks_for() -> None:
    blocks = re.findall(r":root \{(.*?)\}", module._style(), re.DOTALL)
    schemes = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    assert len(schemes) == 3
    for scheme in schemes:
        text = [
            ("ink", "page"), ("ink", "paper"), ("quiet", "page"), ("quiet", "paper"),
            ("quiet", "soft"), ("accent", "page"), ("loss", "paper"), ("gain", "paper"),
            ("loss", "loss-soft"), ("gain", "gain-soft"), ("ink", "warn-soft"), ("ink", "soft"),
        ]  # fmt: skip
        for front, back in text:
            assert contrast(scheme[front], scheme[back]) >= 4.5, (front, back, scheme["page"])
        # 1.4.11: parts of graphics, 3 to 1; past bars have their number beside them
        for front in ("held", "loss", "gain", "new"):
            assert contrast(scheme[front], scheme["paper"]) >= 3, (front, scheme["page"])
