from msgspec import structs

from service.reports.report_text import report_text
from service.reports.withheld_report import without_costs
from tests.reports import loss_reports

HARD, THIN, MINUS = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", "\N{MINUS SIGN}"
TITLE = "Nightly loss, all clusters, 30 Nov 2026, 02:30 (Europe/Paris)"
BUDGET = (
    "Budget: over budget, 625,300 of 600,000 GPU-hours (104% used), "
    "€1,353,767.49 of €2,000,000.00 (68% used)"
)


def test_the_headline_in_english() -> None:
    text = report_text(loss_reports.realistic(), "en", {"Report": "https://trainard.example/r/1"})
    assert text.split("\n") == [
        TITLE + ", made 30 Nov 2026, 01:31 UTC",
        "",
        "Lost in 30 days: 625,300 GPU-hours, 15.2% of 4,101,120 held",
        "Change in GPU-hours: +19,300 (+3.2%) against 29 Nov 2026, 01:30 UTC",
        "Cost: €1,353,767.49",
        "Change of the cost: +€81,200.17 (+6.4%)",
        BUDGET,
        "",
        "Biggest movers:",
        "- H100 production: +20,885 GPU-hours (Profile revision)",
        f"- H100 vision: {MINUS}7,436 GPU-hours (Profile revision)",
        "- H100 reinforcement: +4,443 GPU-hours (Profile revision)",
        "- H200 long context: +4,392 GPU-hours (Profile revision)",
        f"- H100 research: {MINUS}2,335 GPU-hours (Profile revision)",
        "",
        "What would help most, in 30 days:",
        "- Replace slow GPUs, H100 production: 156,637 GPU-hours given back",
        "- Do not wait for the last (count 8), H100 production: 53,953 GPU-hours given back",
        "- Checkpoint at the best interval, H100 production: 10,442 GPU-hours given back",
        "",
        "What you must know:",
        "- 1 of 11 points failed: it is in no sum",
        "- Something that no catalog has yet",
        "",
        "Report: https://trainard.example/r/1",
        "",
    ]


def test_the_headline_in_french_without_money() -> None:
    text = report_text(without_costs(loss_reports.realistic()), "fr")
    assert (
        f"Perdu en 30 jours{HARD}: 625{THIN}300 heures GPU, 15,2{HARD}% de "
        f"4{THIN}101{THIN}120 payées"
        in text
        or f"15,2{THIN}% de" in text
    )
    assert f"Coût{HARD}: masqué, car vous ne pouvez pas voir les coûts" in text
    assert "€" not in text


def test_a_first_night() -> None:
    text = report_text(loss_reports.without_baseline(), "en")
    assert "Nothing to compare with: there is no earlier run with results\n" in text
    assert "Budget" not in text
    assert "Biggest movers" not in text
    assert "What you must know" not in text


def test_nothing_computed_nothing_changed_and_no_rate() -> None:
    failed = report_text(loss_reports.all_failed(), "en")
    assert "\nNo item has numbers.\nNothing to compare with: not a known reason\n" in failed
    extreme = report_text(loss_reports.extreme(), "en")
    assert "\nChange: no change against 29 Nov 2026, 01:30 UTC\n" in extreme
    assert ": +1.00 GPU-hours (appeared)\n" in extreme
    assert ": 0 GPU-hours\n" in extreme
    assert "\x07" not in extreme
    rateless = report_text(loss_reports.without_rate(), "en")
    assert "\nCost: no rate\nBudget: not known\n" in rateless
    assert rateless.startswith("Nightly loss")


def test_a_change_that_is_not_known_is_left_out() -> None:
    report = loss_reports.realistic()
    head = structs.replace(report.headline, gpu_hours_lost_change=None, cost_of_loss_change=None)
    text = report_text(structs.replace(report, headline=head), "en")
    assert "Change" not in text


def test_a_remedy_that_gives_back_more_than_is_lost_says_how() -> None:
    report = loss_reports.realistic()
    first = structs.replace(report.remedies[0], is_more_than_lost=True)
    more = structs.replace(report, remedies=[first, *report.remedies[1:]])
    told = "given back. More than is lost: it makes steps shorter than the ideal step, which"
    assert report_text(more, "en").count(told) == 1
    assert report_text(more, "fr").count(f"Plus que la perte{HARD}: ce remède raccourcit") == 1
    assert "Plus que la perte" not in report_text(report, "fr")
