import io
import json
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree as ET

import pytest

from service.reports import chart_images
from service.reports.chart_images import Picture, draw, pictures
from service.reports.charts import COLOURS, NARROW, WIDE, Bar, bars

SVG = "{http://www.w3.org/2000/svg}"
ROWS = [
    Bar("Held & <b>", 0.0, 100.0, "100", "held"),
    Bar("Slow GPUs 🧮 中文", 100.0, 60.0, "40", "loss"),
    Bar("Useful compute", 0.0, 60.0, "60", "held", 50.0, 80.0),
]
WANTED = [
    Picture("one", "wide", bars(ROWS, WIDE, connected=True), "Title & all", "About <it>"),
    Picture("one", "narrow", bars(ROWS, NARROW), "Title", "About"),
    Picture("two", "wide", bars(ROWS, is_paired=True), "Title", "About"),
]


@pytest.fixture(scope="module")
def drawn() -> list[str]:
    images = pictures(WANTED)
    assert None not in images
    return [image for image in images if image is not None]


def test_images_are_svg_with_the_words_of_the_chart(drawn: list[str]) -> None:
    root = ET.fromstring(drawn[0])  # noqa: S314 - of our own renderer
    assert root.get("role") == "img"
    assert root.get("viewBox") == "0 0 770 82.84"
    assert root.get("width") is None
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts == ["Held & <b>", "Slow GPUs 🧮 中文", "Useful compute", "100", "40", "60"]
    named = (root.get("aria-labelledby") or "").split()
    by_id = {element.get("id"): element.text for element in root.iter() if element.get("id")}
    assert [by_id[name] for name in named] == ["Title & all", "About <it>"]


def test_colours_are_variables_and_nothing_else(drawn: list[str]) -> None:
    used = set()
    for image in drawn:
        assert re.search(r"#[0-9a-fA-F]{3}|rgb\(|white|black", image) is None
        used |= set(re.findall(r"var\(--([a-z]+)\)", image))
    assert used <= set(COLOURS)
    assert {"held", "loss", "ink"} <= used


def test_images_need_nothing_and_do_not_clash(drawn: list[str]) -> None:
    together = "".join(drawn)
    ids = re.findall(r' id="([^"]+)"', together)
    assert len(ids) == len(set(ids)) == 2 * len(drawn)
    without_names = together.replace('xmlns="http://www.w3.org/2000/svg"', "")
    for trace in ("http", "url(", "<script", "<image", "<style", "style=", "@font-face", "href"):
        assert trace not in without_names, trace
    assert 'role="graphics' not in together


def test_the_same_charts_are_drawn_once(drawn: list[str]) -> None:
    before = chart_images._draw_apart.cache_info().hits
    assert pictures(WANTED) == drawn
    assert chart_images._draw_apart.cache_info().hits == before + 1
    assert pictures([]) == []


@pytest.fixture
def forgotten() -> Iterator[None]:
    chart_images._draw_apart.cache_clear()
    yield
    chart_images._draw_apart.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_without_a_renderer_there_is_no_picture_and_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert pictures(WANTED[:2]) == [None, None]
    # A failure is not remembered
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert pictures(WANTED[:2]) == [None, None]


@pytest.mark.usefixtures("forgotten")
def test_readers_at_once_have_it_drawn_once() -> None:
    with ThreadPoolExecutor(4) as readers:
        answers = list(readers.map(pictures, [WANTED[:1]] * 4))
    assert answers[0][0] is not None
    assert answers == [answers[0]] * 4
    assert chart_images._draw_apart.cache_info().misses == 1


@pytest.mark.usefixtures("forgotten")
def test_a_renderer_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_images, "SECONDS", 0.01)
    assert pictures(WANTED[:1]) == [None]


def test_the_drawing_process_answers_what_it_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = json.dumps([json.dumps(WANTED[2].spec)])
    monkeypatch.setattr(sys, "stdin", io.StringIO(asked))
    draw()
    [image] = json.loads(capsys.readouterr().out)
    assert image.startswith("<svg")
    assert COLOURS["held"] in image
