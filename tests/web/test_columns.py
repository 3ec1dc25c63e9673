import json
import tomllib
from importlib.resources import files

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.model.results import COLUMNS
from service.reports.language import LANGUAGES, Language
from service.web import columns

NAMES = [column.name for column in COLUMNS]


def words(language: Language) -> dict[str, dict[str, str]]:
    source = files("service.web") / "column_words" / f"{language}.toml"
    return tomllib.loads(source.read_text("utf-8"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_output_column_has_a_label_in_the_order_of_the_model(language: Language) -> None:
    assert list(words(language)["labels"]) == NAMES
    served = json.loads(columns.content(language))
    assert [column["name"] for column in served] == NAMES


def test_english_sentences_are_those_of_the_api_and_french_ones_are_complete() -> None:
    english = json.loads(columns.content("en"))
    assert [one["sentence"] for one in english] == [column.sentence for column in COLUMNS]
    assert list(words("fr")["sentences"]) == NAMES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_value_of_an_enumeration_has_its_words(language: Language) -> None:
    values = {value for column in COLUMNS for value in column.labels}
    assert set(words(language)["values"]) == values
    by_name = {one["name"]: one for one in json.loads(columns.content(language))}
    shown = {"en": "closed form", "fr": "forme close"}
    assert by_name["method"]["values"]["closed_form"] == shown[language]


def test_units_are_shown_in_the_language_and_kept_as_they_are() -> None:
    by_name = {one["name"]: one for one in json.loads(columns.content("fr"))}
    lost = by_name["gpu_hours_lost"]
    assert (lost["unit"], lost["unit_label"]) == ("GPU-hours", "heures GPU")
    assert by_name["step_mean_ms"]["unit_label"] == "ms"


def test_columns_are_served_for_ever_under_their_digest_alone(
    shared_client: TestClient[Litestar],
) -> None:
    address = columns.address("fr")
    answer = shared_client.get(address)
    assert answer.content == columns.content("fr")
    assert "immutable" in answer.headers["cache-control"]
    assert columns.address("en") != address
    assert shared_client.get("/assets/columns/0000000000000000.json").status_code == 404
