"""Sentences of runs and deliveries can be read back, and the pages say all of them."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from service.jobs import delivery_reasons
from service.jobs.delivery_codes import coded_reason
from service.jobs.reason_sentences import SENTENCES, Coded, coded, say
from service.reports.language import LANGUAGES
from service.reports.money import Money
from tests.jobs.test_delivery_plans import COSTS, decided, moved, with_budget
from tests.reports.loss_reports import realistic, without_baseline

TEXTS = Path(__file__).parents[2] / "service" / "web" / "texts"
VALUES = {
    **dict.fromkeys(("at_once", "limit", "left", "points", "seconds", "slots", "waiting"), "12"),
    "detail": "profile h100 is archived: twice\nover",
    "late": "1 d 2 h",
    "name": "Ada Lovelace",
    "folder": "'a b'",
    "team": "'research'",
    "status": "503",
}
# Places that the pages leave out
LEFT_OUT = {"run_id", "local_time", "detail"}


def places(text: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("code", SENTENCES)
def test_each_sentence_is_read_back(code: str) -> None:
    values = {name: VALUES.get(name, f"{name}-1") for name in places(SENTENCES[code])}
    assert coded(say(code, **values)) == Coded(code=code, values=values)


def test_what_nobody_here_has_said_has_no_code() -> None:
    assert coded(None) is coded("") is coded("a sentence of an older version") is None
    assert coded_reason(None) is None
    assert coded_reason(say("tried_by", name="Ada")) == Coded(
        code="tried_by", values={"name": "Ada"}
    )


@pytest.mark.parametrize(
    ("report", "fields", "code", "values"),
    [
        (None, {"state": "failed", "cause": "no rate"}, "failed", {"detail": "no rate"}),
        (None, {"state": "failed"}, "failed_without_cause", {}),
        (
            None,
            {"state": "canceled", "cause": "by Ada"},
            "ended",
            {"state": "canceled", "detail": "by Ada"},
        ),
        (
            with_budget(gpu_hours_budget_per_30_days=99.5),
            {},
            "over_hours",
            {"lost": "120000", "budget": "99.5"},
        ),
        (
            with_budget(**COSTS),
            {},
            "over_cost",
            {"lost": "252000.84 EUR", "budget": "200000.00 EUR"},
        ),
        (
            with_budget(
                cost_budget_per_30_days=Money(amount="252000.84", currency="EUR"),
                cost_of_loss_per_30_days=Money(amount="252000.84", currency="EUR"),
            ),
            {},
            "over_cost",
            {"lost": "252000.84 EUR", "budget": "252000.84 EUR", "least": "0.01 EUR"},
        ),
        (moved(10.0, 12.0), {}, "always", {}),
        (moved(10.0, 1234.5), {"when": "not_empty"}, "not_empty", {"lost": "1234"}),
        (
            without_baseline(),
            {"when": "on_change", "threshold": {"relative": 0.1}},
            "no_baseline",
            {},
        ),
        (
            moved(1000.0, 3000.0),
            {
                "when": "on_change",
                "threshold": {"relative": 0.125, "gpu_hours_lost_per_30_days": 1500},
            },
            "moved",
            {
                "difference": "+2000",
                "relative": "+200%",
                "limit_gpu_hours": "1500",
                "limit_relative": "12.5%",
            },
        ),
        (
            moved(1000.0, 900.25),
            {"when": "on_change", "threshold": {"gpu_hours_lost_per_30_days": 100}},
            "still",
            {"difference": "-99.75", "relative": "-9.98%", "limit_gpu_hours": "100"},
        ),
        (
            moved(0.0, 5.0),
            {"when": "on_change", "threshold": {"relative": 0.5}},
            "moved",
            {"difference": "+5", "limit_relative": "50%"},
        ),
    ],
)
def test_why_a_delivery_is_sent_is_read_back_in_both_languages(
    report: Any, fields: dict[str, Any], code: str, values: dict[str, str]
) -> None:
    for language in LANGUAGES:
        found = coded_reason(decided(report, language, **fields).reason)
        assert found == Coded(code=f"delivery_{code}", values=values), language


def test_other_scenarios_are_told_apart() -> None:
    rule: dict[str, Any] = {"when": "on_change", "threshold": {"relative": 0.5}}
    told = [coded_reason(decided(realistic(), one, **rule).reason) for one in LANGUAGES]
    assert told[0] == told[1]
    assert told[0] is not None


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pages_say_every_sentence(language: str) -> None:
    texts = tomllib.loads((TEXTS / language / "reasons.toml").read_text("utf-8"))
    parts = {"hours", "or", "over_by_less"}
    of_deliveries = {
        f"delivery_{code}": text.replace("{cause}", "{detail}")
        for code, text in delivery_reasons.SENTENCES["en"].items()
        if code not in parts
    }
    for code, text in {**SENTENCES, **of_deliveries}.items():
        told = places(texts[code])
        assert told <= places(text), code
        assert places(text) - told <= LEFT_OUT, code
