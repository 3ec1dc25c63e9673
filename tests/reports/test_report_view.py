"""What a report shows of single values."""

from msgspec import structs

from service.reports.language import words
from service.reports.loss_report import VolumeCause
from service.reports.report_view import (
    Cell,
    label,
    moved_input,
    percent,
    setting_of,
    title_of,
    volume_reason,
)
from tests.reports import loss_reports

ENGLISH, FRENCH = words("en"), words("fr")
NBSP, NARROW, MINUS = "\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}", "\N{MINUS SIGN}"


def moved(path: str | None, past: str | None, new: str | None) -> VolumeCause:
    return VolumeCause(
        cause="template",
        detail="set by the batch",
        path=path,
        past=past,
        new=new,
        gpu_hours_per_30_days=1.0,
    )


def test_the_title_has_the_slot_in_local_time() -> None:
    report = loss_reports.realistic()
    assert title_of(report, ENGLISH) == (
        "Nightly loss, all clusters, 30 Nov 2026, 02:30 (Europe/Paris)"
    )
    assert title_of(report, FRENCH).endswith("30 nov. 2026, 02:30 (Europe/Paris)")
    by_hand = structs.replace(report, run=None, name="\u202e ")
    assert title_of(by_hand, ENGLISH) == str(report.report_id)
    assert label("", "a\u0007b") == "ab"


def test_values_that_moved_are_numbers_of_the_language() -> None:
    assert moved_input(FRENCH, moved("compute_ms", "250.0", "260.0")) == Cell(
        "Calcul, ms", note="250,0 → 260,0", code="compute_ms"
    )
    assert moved_input(ENGLISH, moved("seed", "7", "12345678")).note == "7 → 12,345,678"
    assert moved_input(FRENCH, moved("seed", "7", "12345678")).note == (
        f"7 → 12{NARROW}345{NARROW}678"
    )
    said = {
        (None, '"gpipe"'): '– → "gpipe"',  # noqa: RUF001 - a dash where there is nothing
        ("true", "not JSON\u202e"): "true → not JSON",
        ("[1,2]", "NaN"): "[1,2] → NaN",
        ("1e-7", "0.0"): "0.0000001 → 0",
    }
    for (past, new), note in said.items():
        assert moved_input(ENGLISH, moved("x", past, new)).note == note
    assert moved_input(ENGLISH, moved(None, None, None)).mark == "quiet"


def test_details_of_a_reason_are_said_in_the_language() -> None:
    assert volume_reason(FRENCH, moved("x", "1", "2")).note == "fixé par le lot"
    many = structs.replace(moved("x", "1", "2"), detail="seed, draws and 3 more")
    assert volume_reason(FRENCH, many).note == "seed, draws et 3 de plus"
    assert volume_reason(ENGLISH, many).note == "seed, draws and 3 more"


def test_settings_of_remedies_are_said_in_the_language() -> None:
    assert setting_of(FRENCH, "count 16") == "nombre 16"
    assert setting_of(FRENCH, "steps 1e+04, extra_steps_fraction 0.02") == (
        f"pas 10{NARROW}000, pas supplémentaires 0,02"
    )
    assert setting_of(ENGLISH, "schedule 1f1b") == "schedule 1f1b"
    assert setting_of(ENGLISH, "of_tomorrow") == "of tomorrow"


def test_percentages_beyond_reason_are_times() -> None:
    assert percent(ENGLISH, 2_000.0, signed=True) == "more than 1,000 times"
    assert percent(FRENCH, 1e300) == f"plus de 1{NARROW}000 fois"
    assert percent(ENGLISH, -1_001.0) == f"less than {MINUS}1,000 times"
    assert percent(ENGLISH, 1_000.0, signed=True) == "+100,000.0%"
