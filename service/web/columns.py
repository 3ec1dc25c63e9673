"""The output columns for the pages: how each is called, its unit, kind and sentence.

The columns are those of `model/results.py`; only their words in a page's language are here.
"""

import hashlib
import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from service.model.results import COLUMNS
from service.reports.language import LANGUAGES, Language

MEDIA_TYPE: Final = "application/json"


@cache
def content(language: Language) -> bytes:
    """All columns in their order: `{name, label, unit, unit_label, kind, values, sentence}`."""
    source = files("service.web") / "column_words" / f"{language}.toml"
    words = tomllib.loads(source.read_text("utf-8"))
    # English sentences are those of the API; a new column is shown by its name meanwhile.
    sentences = words.get("sentences", {})
    columns = [
        {
            "name": column.name,
            "label": words["labels"].get(column.name, column.name.replace("_", " ")),
            "unit": column.unit,
            "unit_label": words["units"].get(column.unit, column.unit),
            "kind": column.kind,
            "values": {
                value: words["values"].get(value, value.replace("_", " "))
                for value in column.labels
            },
            "sentence": sentences.get(column.name, column.sentence),
        }
        for column in COLUMNS
    ]
    return msgspec.json.encode(columns)


@cache
def address(language: Language) -> str:
    """Where they are served; it changes with them."""
    return f"/assets/columns/{hashlib.sha256(content(language)).hexdigest()[:16]}.json"


def content_at(path: str) -> bytes | None:
    """What is served there."""
    found = {address(language): content(language) for language in LANGUAGES}
    return found.get(path)
