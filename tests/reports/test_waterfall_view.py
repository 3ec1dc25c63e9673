import pytest
from msgspec import structs

from service.reports.language import words
from service.reports.loss_report import LossReport, WaterfallStep
from service.reports.waterfall_view import waterfall_figure, waterfall_table
from tests.reports import loss_reports

ENGLISH = words("en")


def report_of(**hours: float) -> LossReport:
    """1 000 GPU-hours held, in these causes."""
    report = loss_reports.realistic()
    return structs.replace(
        report,
        headline=structs.replace(report.headline, gpu_hours_available_per_30_days=1000.0),
        waterfall=[
            WaterfallStep(
                column=f"gpu_hours_{name}",
                gpu_hours_per_30_days=amount,
                past_gpu_hours_per_30_days=None,
                cost_per_30_days=None,
            )
            for name, amount in hours.items()
        ],
    )


def test_bars_lead_from_held_to_useful() -> None:
    report = report_of(useful=700.0, slow_groups=200.0, communication=120.0, backup_workers=-20.0)
    figure = waterfall_figure(report, ENGLISH)
    assert figure is not None
    assert figure.is_connected
    assert [(bar.label, bar.start, bar.end, bar.tone) for bar in figure.bars] == [
        ("Held", 0.0, 1000.0, "held"),
        ("Slow GPUs", 1000.0, 800.0, "loss"),
        ("Exposed communication", 800.0, 680.0, "nominal"),
        ("Backup workers", 680.0, 700.0, "gain"),
        ("Useful compute", 0.0, 700.0, "held"),
    ]
    assert figure.bars[1].text == "200.0 (20.0%)"
    assert [entry.text for entry in figure.legend] == [
        "held and useful",
        "nominal communication and loading",
        "lost",
        "gained",
    ]
    assert figure.description == (
        "1,000 GPU-hours are held; 700.0 are useful compute. Largest cause: Slow GPUs with 200.0."
    )


def test_small_causes_are_one_bar_and_all_rows_of_the_table() -> None:
    report = report_of(useful=794.0, slow_groups=200.0, spikes=4.0, node=-3.0, common=5.0 - 0.5)
    figure = waterfall_figure(report, ENGLISH)
    assert figure is not None
    assert [bar.label for bar in figure.bars] == [
        "Held",
        "Slow GPUs",
        "3 smaller causes",
        "Useful compute",
    ]
    # They add up, and so the last cause ends where useful ends
    assert figure.bars[2].start - figure.bars[2].end == pytest.approx(5.5)
    table = waterfall_table(report, ENGLISH)
    assert table is not None
    assert [row[0].text for row in table.rows] == [
        "Slow GPUs",
        "Slow steps of all GPUs",
        "Rare slow steps",
        "Nodes that differ for good",
        "Useful compute",
    ]
    assert [head.text for head in table.heads] == ["Cause", "GPU-hours", "Share of held"]


def test_one_small_cause_keeps_its_name() -> None:
    figure = waterfall_figure(report_of(useful=797.0, slow_groups=200.0, spikes=3.0), ENGLISH)
    assert figure is not None
    assert [bar.label for bar in figure.bars][2] == "Rare slow steps"


def test_fifteen_causes_are_readable() -> None:
    figure = waterfall_figure(loss_reports.extreme(), ENGLISH)
    assert figure is not None
    assert len(figure.bars) == 15
    assert figure.bars[-2].label == "5 smaller causes"


def test_without_causes_there_is_nothing_to_draw() -> None:
    empty = report_of(useful=1000.0)
    assert waterfall_figure(empty, ENGLISH) is None
    assert waterfall_table(empty, ENGLISH) is None
    assert waterfall_figure(loss_reports.all_failed(), ENGLISH) is None
