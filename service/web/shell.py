"""A page as HTML: the layout, the words of its language, and the addresses of its files."""

import json
import re
from functools import lru_cache, partial
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from service.reports.language import LANGUAGES, Language
from service.web import assets, chart_files, columns, vega
from service.web.input_lines import input_lines
from service.web.language import Texts, texts

# Also the order of the menu
PLACES: Final = (
    ("simulator", "/"),
    ("batches", "/batches"),
    ("results", "/results"),
    ("compare", "/compare"),
    ("history", "/history"),
    ("profiles", "/profiles"),
    ("calibrations", "/calibrations"),
    ("rates", "/rates"),
    ("schedules", "/schedules"),
    ("reports", "/reports"),
    ("deliveries", "/deliveries"),
    ("retention", "/retention"),
    ("inputs", "/inputs"),
)


class Page(Struct, frozen=True, kw_only=True):
    """One page: `name` is that of its template, its module and its title's key.

    - `path`: as Litestar writes it; `place`: what is marked in the menu;
    - `words`: files of texts that it needs beside `common`, for its template and its modules;
    - `style`: its stylesheet, where it is not called as the page is.
    """

    name: str
    path: str
    place: str
    words: tuple[str, ...]
    style: str = ""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = coded
    return environment


def coded(text: str) -> Markup:
    """The text as HTML, with code elements for what stands between backticks."""
    parts = re.split(r"`([^`]*)`", text)
    code = Markup("<code>{}</code>")
    return Markup().join(
        code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


@lru_cache
def page_html(page: Page, language: Language) -> bytes:
    """The whole page, without anything of anybody: modules ask the API for that."""
    words = _words(page, language)
    files = assets.static_files()
    styles = [name for name in ("base.css", f"{page.style or page.name}.css") if name in files]
    html = (
        _environment()
        .get_template(f"{page.name}.html.j2")
        .render(
            page=page,
            language=language,
            languages=LANGUAGES,
            places=PLACES,
            text=words.__getitem__,
            # A data block: `<` could end it.
            words=json.dumps(words, ensure_ascii=False).replace("<", "\\u003c"),
            asset=assets.address,
            styles=styles,
            vega=f"/assets/vega/{vega.tag()}.js",
            charts=chart_files.address(),
            columns=columns.address(language),
            input_lines=partial(input_lines, language),
        )
    )
    return html.encode()


def _words(page: Page, language: Language) -> Texts:
    found: dict[str, str] = {}
    for name in ("common", *page.words):
        found |= {f"{name}.{key}": text for key, text in texts(language, name).items()}
    return found
