import pytest
from msgspec import structs

from service.reports import item_views, remedy_views
from service.reports.language import words
from service.reports.loss_report import LossReport
from service.reports.money import CostStatus
from service.reports.withheld_report import without_costs
from tests.reports import loss_reports

ENGLISH = words("en")
MINUS = "\N{MINUS SIGN}"


def test_movers_go_to_both_sides() -> None:
    figure = item_views.movers_figure(loss_reports.realistic(), ENGLISH)
    assert figure is not None
    assert [(bar.label, bar.text, bar.tone) for bar in figure.bars[:2]] == [
        ("H100 production", "+20,885 (+13.6%)", "loss"),
        ("H100 vision", f"{MINUS}7,436 ({MINUS}23.7%)", "gain"),
    ]
    assert [entry.text for entry in figure.legend] == ["more is lost", "less is lost"]
    assert figure.description == (
        "Largest change: H100 production with +20,885 GPU-hours in 30 days."
    )


def test_an_item_that_has_failed_has_not_become_better() -> None:
    report = loss_reports.realistic()
    gain = next(mover for mover in report.movers if mover.difference_per_30_days < 0)
    kinds = ("changed", "gone", "failed", "returned")
    movers = [structs.replace(gain, kind=kind) for kind in kinds]
    report = structs.replace(report, movers=movers)
    figure = item_views.movers_figure(report, ENGLISH)
    table = item_views.movers_table(report, ENGLISH)
    assert figure is not None
    assert table is not None
    assert [bar.tone for bar in figure.bars] == ["gain", "gain", "nominal", "nominal"]
    assert [entry.text for entry in figure.legend] == [
        "less is lost",
        "without numbers on one side",
    ]
    assert [(row[3].mark, row[5].mark) for row in table.rows] == [
        ("better", "better"),
        ("better", "better"),
        ("", ""),
        ("", ""),
    ]


def test_a_mover_without_a_cost_says_why() -> None:
    report = loss_reports.realistic()
    mover, item = report.movers[0], report.items[0]
    assert mover.custom_id == item.custom_id
    assert item.cost_change is not None
    differ = structs.replace(item.cost_change, difference=None, status="currencies_differ")
    item = structs.replace(item, cost_change=differ, cost_status=CostStatus.PARTLY_PRICED)
    bare = structs.replace(mover, cost_difference_per_30_days=None)
    movers = [bare, *(structs.replace(bare, kind=kind) for kind in ("appeared", "gone"))]
    report = structs.replace(report, items=[item], movers=movers)
    free = structs.replace(report, batch=structs.replace(report.batch, currency=None))

    def said(one: LossReport) -> list[str]:
        table = item_views.movers_table(one, ENGLISH)
        assert table is not None
        return [row[5].text for row in table.rows]

    assert said(report) == ["currencies differ", "some days have no rate", "not computed"]
    assert said(free)[2] == "no rate"
    assert set(said(without_costs(report))) == {"withheld"}


def test_losers_have_their_range() -> None:
    report = loss_reports.realistic()
    figure = item_views.items_figure(report, ENGLISH)
    assert figure is not None
    first = figure.bars[0]
    assert (first.label, first.text) == ("B200 pre-training", "256,922 (17.4%)")
    lost = report.items[2].gpu_hours_lost
    assert lost is not None
    assert (first.low, first.high) == (0.93 * lost, 1.08 * lost)
    assert [entry.tone for entry in figure.legend] == ["loss", "range"]


def test_changes_of_items_are_said_to_be_of_30_days() -> None:
    """Beside a loss of the item's own window, which may be a week."""
    first = loss_reports.realistic().items[0]
    assert first.change is not None
    week = structs.replace(first, period_days=7, gpu_hours_lost=1000.25, gpu_hours_lost_se=4.0)
    report = structs.replace(loss_reports.realistic(), items=[week])
    table = item_views.items_table(report, ENGLISH)
    heads = [head.text for head in table.heads]
    row = dict(zip(heads, table.rows[0], strict=True))
    assert row["Lost"].text == "1,000"
    # ± 4 GPU-hours in 7 days are ± 17 in 30: the last digit is not known.
    assert first.change.difference == pytest.approx(20_885, abs=0.5)
    assert row["Difference in 30 days"].text == "+20,880"
    french = item_views.items_table(report, words("fr"))
    assert "Écart sur 30 jours" in [head.text for head in french.heads]


def test_a_loss_without_what_is_held_has_no_share() -> None:
    report = loss_reports.realistic()
    odd = structs.replace(report.items[0], gpu_hours_available=None)
    figure = item_views.items_figure(structs.replace(report, items=[odd]), ENGLISH)
    assert figure is not None
    assert figure.bars[0].text == "174,041"


def test_profiles_stand_before_and_now() -> None:
    report = loss_reports.realistic()
    nameless = structs.replace(report.items[1], profile=None)
    items = [report.items[0], nameless]
    rows = loss_reports.profiles_of(items)
    rows[1] = structs.replace(rows[1], items_appeared=1, items_failed=2)
    pair = structs.replace(report, items=items, profiles=rows)
    figure = item_views.profiles_figure(pair, ENGLISH)
    assert figure is not None
    assert figure.is_paired
    assert [(bar.label, bar.text, bar.tone) for bar in figure.bars] == [
        ("prod-h100", "153,156", "past"),
        ("", "174,041 (+20,885)", "new"),
        ("", "", "past"),
        ("without a profile", "41,243", "past"),
        ("", f"38,908 ({MINUS}2,335)", "new"),
    ]
    table = item_views.profiles_table(pair, ENGLISH)
    assert table is not None
    assert [cell.text for cell in table.rows[1]] == [
        "without a profile",
        "41,243",
        "38,908",
        f"{MINUS}2,335",
    ]
    assert [row[0].note for row in table.rows] == ["", "1 appeared, 2 without numbers now"]
    one = structs.replace(pair, profiles=rows[:1])
    assert item_views.profiles_figure(one, ENGLISH) is None
    assert item_views.profiles_table(one, ENGLISH) is None


def test_items_show_their_error_and_no_digit_more() -> None:
    table = item_views.items_table(loss_reports.realistic(), ENGLISH)
    drawn = next(row for row in table.rows if row[0].text == "H100 research")
    assert (drawn[4].text, drawn[4].note) == ("38,900", "± 160")
    assert drawn[6].text == f"{MINUS}2,300"
    assert drawn[8].text == "Monte Carlo"
    assert table.note == ""


def test_remedies_say_of_which_item_where_there_are_several() -> None:
    report = loss_reports.realistic()
    figure = remedy_views.remedies_figure(report, ENGLISH)
    assert figure is not None
    assert [bar.text for bar in figure.bars] == [
        "156,637",
        "53,953 (count 8)",
        "10,442",
        "38,300 (steps 4)",
    ]
    first, *others = report.remedies
    other = structs.replace(
        first,
        custom_id="else",
        name="",
        gpu_hours_given_back=-7.0,
        gpu_hours_given_back_per_30_days=-30.0,
        gpu_hours_given_back_se=7.0,
    )
    nothing = structs.replace(others[2], gpu_hours_given_back=0.0)
    first = structs.replace(first, is_more_than_lost=True)
    several = structs.replace(report, remedies=[first, other, nothing])
    figure = remedy_views.remedies_figure(several, ENGLISH)
    assert figure is not None
    assert [(bar.text, bar.tone) for bar in figure.bars[:2]] == [
        ("156,637 (H100 production)", "gain"),
        (f"{MINUS}30 (else)", "loss"),
    ]
    table = remedy_views.remedies_table(several, ENGLISH)
    assert table is not None
    # On 30 days, as what is given back is
    assert (table.rows[1][2].text, table.rows[1][2].note) == (f"{MINUS}30", "± 30")
    assert table.rows[0][2].note.startswith("More than is lost: it makes steps shorter than")
