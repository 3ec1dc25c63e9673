import json
import re

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.web import assets, vega
from service.web.pages import PAGES
from service.web.shell import Page

EXAMPLES = {
    "{batch_id:str}": "x",
    "{result_id:str}": "x.1",
    "{slug:str}": "x",
    "{report_id:str}": "x",
    "{calibration_id:str}": "x",
}


def address(path: str) -> str:
    for name, example in EXAMPLES.items():
        path = path.replace(name, example)
    return path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_every_page_is_whole_in_every_language(
    shared_client: TestClient[Litestar], page: Page, language: str
) -> None:
    answer = shared_client.get(address(page.path), headers={"Accept-Language": language})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-language"] == language
    assert "Accept-Language" in answer.headers["vary"]
    assert "set-cookie" not in answer.headers
    html = answer.text
    assert f'<html lang="{language}"' in html
    assert html.count("<h1") == 1
    # The strict policy: no script and no style of the page's own.
    assert re.findall(r"<script(?![^>]*(?:src=|application/json))", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", html) == []
    (data,) = re.findall(r'id="texts">(.*?)</script>', html, re.DOTALL)
    words = json.loads(data)
    assert words["common.place_rates"] == {"en": "Rates", "fr": "Tarifs"}[language]
    for asset in re.findall(r'(?:src|href)="(/assets/[0-9a-f]{16}/[^"]+)"', html):
        found = shared_client.get(asset)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


def test_a_language_that_is_asked_for_is_kept(shared_client: TestClient[Litestar]) -> None:
    answer = shared_client.get("/rates?lang=fr")
    assert '<html lang="fr"' in answer.text
    assert answer.headers["set-cookie"].startswith("trainard_language=fr; Path=/; Max-Age=")
    later = shared_client.get("/rates", headers={"Cookie": "trainard_language=fr"})
    assert '<html lang="fr"' in later.text
    shared_client.cookies.clear()
    unknown = shared_client.get("/rates?lang=de", headers={"Accept-Language": "fr"})
    assert unknown.status_code == 200
    assert '<html lang="fr"' in unknown.text
    assert "set-cookie" not in unknown.headers


def test_files_have_no_other_address(shared_client: TestClient[Litestar]) -> None:
    digest = assets.digest()
    for path in (
        f"/assets/{digest}/none.js",
        "/assets/0000000000000000/api.js",
        f"/assets/{digest}/..%2Fpages.py",
        f"/assets/{digest}/%2e%2e/pages.py",
        "/assets/vega/0000000000000000.js",
    ):
        assert shared_client.get(path).status_code == 404, path


def test_the_chart_library_comes_out_of_the_installed_package(
    shared_client: TestClient[Litestar],
) -> None:
    answer = shared_client.get(f"/assets/vega/{vega.tag()}.js")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.text.rstrip().endswith(("window.vegaLite=__default1;", ";"))
    assert "window.vegaEmbed=" in answer.text
    assert vega.begin() is vega.begin()
