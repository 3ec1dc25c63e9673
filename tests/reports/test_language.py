import re
import string
from typing import get_args

import pytest

from service.jobs.report_remedies import OF_CLOCK, OF_TIME
from service.jobs.run_documents import BaselineMissing, RunKind
from service.model.remedy.remedy_kinds import KINDS, Remedy
from service.model.results import ATTRIBUTION_COLUMNS, METHODS
from service.reports import volume
from service.reports.cost_changes import ChangeStatus
from service.reports.language import LANGUAGES, Sentence, isolated, words
from service.reports.loss_report import (
    BudgetStatus,
    CauseKind,
    ReasonUnknown,
    ReportNotice,
)
from service.reports.money import CostStatus
from service.reports.report_notices import NOTICES

# Of the ledger of runs, which a report passes on
OF_RUNS = {"late_run", "older_slots_left_out", "profile_not_yet", "dst_gap", "dst_overlap"}
CODES = {
    "column": set(ATTRIBUTION_COLUMNS),
    "volume": set(get_args(CauseKind)),
    "remedy": set(KINDS),
    "method": set(METHODS),
    "cost_status": {*(status.value for status in CostStatus), *get_args(ChangeStatus)},
    "baseline_missing": set(get_args(BaselineMissing)),
    "missing": {"no_headline", "failed", "not_computed"},
    "reason_unknown": set(get_args(ReasonUnknown)),
    "setting": set(Remedy.__struct_fields__) - {"kind"},
    "state": {"succeeded", "partially_failed", "failed", "canceled", "expired"},
}


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_both_catalogs_have_the_same_keys_with_the_same_parameters() -> None:
    english, french = words("en").catalog, words("fr").catalog
    assert set(english) == set(french) - {"notice", "param", "input"}
    for kind in english:
        assert set(english[kind]) == set(french[kind]), kind
        for key, text in english[kind].items():
            assert fields(text) == fields(french[kind][key]), key


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("kind", CODES)
def test_every_code_has_a_name_and_no_name_lacks_its_code(language: str, kind: str) -> None:
    catalog = words("fr" if language == "fr" else "en").catalog
    assert set(catalog[kind]) == CODES[kind]


def test_other_codes_have_sentences() -> None:
    for language in LANGUAGES:
        text = words(language).catalog["text"]
        assert {f"budget_{status}" for status in get_args(BudgetStatus)} <= set(text)
        assert {f"kind_{kind}" for kind in ("changed", "appeared", "gone")} <= set(text)
    assert set(get_args(RunKind)) == {"scheduled", "manual", "backfill"}


def test_every_notice_is_said_in_french_with_its_parameters() -> None:
    french = words("fr").catalog["notice"]
    assert set(french) == set(NOTICES) | OF_RUNS
    for code, text in NOTICES.items():
        assert fields(french[code]) == fields(text), code


def test_french_is_set_as_the_french_set_it() -> None:
    for kind in words("fr").catalog.values():
        for text in kind.values():
            assert "'" not in text, text
            assert re.search(r"[\w}] [;:!?%]", text) is None, text
            assert re.search(r"[\w}][;!?](\s|$)", text) is None, text


def test_a_notice_in_both_languages() -> None:
    notice = ReportNotice(
        code="unpriced_days",
        detail=NOTICES["unpriced_days"].format(days=1200, items=2, names="a, b"),
        params={"days": 1200, "items": 2.5, "names": None},
    )
    assert words("en").notice(notice) == Sentence(notice.detail)
    assert words("fr").notice(notice) == Sentence(
        "Jours sans tarif, tous éléments confondus\N{NO-BREAK SPACE}: "
        "1\N{NARROW NO-BREAK SPACE}200. "
        "Éléments dont le coût n’est donc pas connu\N{NO-BREAK SPACE}: 2,50 (–)."  # noqa: RUF001 - typography
    )


def test_a_notice_that_no_catalog_has_is_told_in_english() -> None:
    unknown = ReportNotice(code="of_tomorrow", detail="It is so")
    assert words("en").notice(unknown) == Sentence("It is so")
    assert words("fr").notice(unknown) == Sentence("It is so", is_foreign=True)
    older = ReportNotice(code="failed_points", detail="Some failed", params={"bad": 1})
    assert words("fr").notice(older) == Sentence("Some failed", is_foreign=True)


def test_english_of_a_document_is_said_in_french_where_it_is_known() -> None:
    notice = ReportNotice(
        code="remedies_left_out",
        detail="Remedies for a were left out: they would take too long.",
        params={"name": "a", "reason": OF_TIME},
    )
    said = words("fr").notice(notice).text
    assert said.endswith("leur calcul serait trop long.")
    details = {volume.OF_BATCH, volume.OF_NOTHING, volume.OF_ROUNDING, volume.OF_DRAWS}
    assert {*details, OF_TIME, OF_CLOCK} <= set(words("fr").catalog["param"])
    assert words("en").param(OF_TIME) == OF_TIME


def test_inputs_have_a_name_beside_their_path() -> None:
    french = words("fr")
    assert french.input_name("num_gpus") == "Nombre de GPU"
    assert french.input_name("variability.transient.cv") == "Variabilité passagère"
    assert french.input_name("communication.link.latency_us") == "Communication"
    assert french.input_name("of_tomorrow.cv") == ""
    assert words("en").input_name("num_gpus") == ""


def test_a_name_in_a_sentence_turns_nothing_around_it() -> None:
    hebrew = "\u05d0\u05d1"
    notice = ReportNotice(
        code="sampled", detail=f"Items ({hebrew}), \u202e\u0007up", params={"names": hebrew, "n": 1}
    )
    isolated_name = f"\u2068{hebrew}\u2069"
    assert words("en").notice(notice).text == f"Items ({isolated_name}), up"
    told = ReportNotice(code="ambiguous_names", detail="", params={"names": f"{hebrew}\u202e"})
    assert isolated_name in words("fr").notice(told).text
    assert isolated("a\u2066b") == "ab"


def test_names_and_numbers_of_things() -> None:
    french = words("fr")
    assert french.name("column", "gpu_hours_slow_groups") == "GPU lents"
    assert french.name("column", "gpu_hours_of_tomorrow") == "of tomorrow"
    assert french.counted("days", 1) == "1 jour"
    assert french.counted("days", 30) == "30 jours"
    assert words("en").counted("days", 0) == "0 days"
