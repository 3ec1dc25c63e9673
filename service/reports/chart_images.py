"""Charts as SVG that is right in light, in dark and on paper: its colours are CSS variables.

The renderer carries a JavaScript engine. Its first chart holds the interpreter for 0.6 s, and it
keeps 80 to 110 MB for ever (.github/decisions/0019-report-charts.md): it works in a process of its
own, which ends with the document. What was drawn is remembered.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from threading import Lock

import structlog
from msgspec import Struct

from service.reports.charts import COLOURS, Spec

_log = structlog.get_logger(__name__)
_VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
_COLOUR = re.compile("|".join(map(re.escape, _VARIABLES)), re.IGNORECASE)
_OPENING = re.compile(r"<svg\b[^>]*?viewBox=\"([^\"]+)\"[^>]*>")
_ROLES = re.compile(r' role="graphics-[a-z]+"| aria-roledescription="[^"]*"')
_PROGRAM = "from service.reports.chart_images import draw; draw()"
SECONDS = 120.0
_KEPT = 64
_ONE_AT_A_TIME = Lock()


class Picture(Struct, frozen=True):
    """What is to be drawn, and how it is told to those who cannot see it."""

    name: str
    form: str
    spec: Spec
    title: str
    description: str


def pictures(wanted: Sequence[Picture]) -> list[str | None]:
    """The SVG elements, in the order asked for; None where none could be drawn."""
    specs = tuple(json.dumps(picture.spec, sort_keys=True) for picture in wanted)
    images = _drawn(specs) if specs else ()
    if images is None:
        return [None] * len(wanted)
    return [_finished(image, picture) for image, picture in zip(images, wanted, strict=True)]


def draw() -> None:
    """The drawing process: a JSON list of charts comes in, a list of SVG texts goes out."""
    import vl_convert  # noqa: PLC0415 - 10 MB, only in the process that draws

    images = [
        vl_convert.vegalite_to_svg(json.loads(spec), allowed_base_urls=[])
        for spec in json.load(sys.stdin)
    ]
    json.dump(images, sys.stdout)


def with_variables(text: str) -> str:
    """Each colour of the definition as the CSS variable of its meaning."""
    return _COLOUR.sub(lambda found: _VARIABLES[found[0].lower()], text)


def _drawn(specs: tuple[str, ...]) -> tuple[str, ...] | None:
    try:
        # Many readers at once do not start as many engines, and the second of them finds it drawn.
        with _ONE_AT_A_TIME:
            return _draw_apart(specs)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        # Every chart has its table beside it: the report is whole without pictures.
        _log.warning("charts_not_drawn", charts=len(specs), error=str(error))
        return None


@lru_cache(maxsize=_KEPT)
def _draw_apart(specs: tuple[str, ...]) -> tuple[str, ...]:
    done = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-P", "-c", _PROGRAM],
        input=json.dumps(specs),
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    return tuple(json.loads(done.stdout))


def _finished(image: str, picture: Picture) -> str:
    """With CSS variables, no size of its own, and title and description for screen readers."""
    title, about = (f"chart-{picture.name}-{picture.form}-{part}" for part in ("title", "about"))
    coloured = with_variables(_ROLES.sub("", image))
    return _OPENING.sub(
        lambda found: (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{found[1]}" '
            f'class="chart {picture.form}" aria-labelledby="{title} {about}">'
            f'<title id="{title}">{escape(picture.title)}</title>'
            f'<desc id="{about}">{escape(picture.description)}</desc>'
        ),
        coloured,
        count=1,
    )
