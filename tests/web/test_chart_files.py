import json
import re

from litestar import Litestar
from litestar.testing import TestClient

from service.model.results import ATTRIBUTION_COLUMNS
from service.reports.charts import COLOURS
from service.web import assets, chart_files


def test_a_page_tells_where_its_charts_are(shared_client: TestClient[Litestar]) -> None:
    (address,) = re.findall(r'data-charts="([^"]+)"', shared_client.get("/").text)
    answer = shared_client.get(address)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert "immutable" in answer.headers["cache-control"]
    assert set(answer.json()) == {
        "bars",
        "waterfall",
        "pairs",
        "gpu_timeline",
        "pipeline_timeline",
        "loss_curve",
        "history",
    }
    assert shared_client.get("/assets/charts/0000000000000000.json").status_code == 404


def test_charts_have_no_data_and_only_colours_of_the_theme() -> None:
    content = chart_files.content().decode()
    assert '"values":[{' not in content
    assert re.findall(r"#[0-9a-fA-F]{3,8}|rgb\(", content) == []
    used = set(re.findall(r"var\(--([a-z]+)\)", content))
    assert used <= set(COLOURS)
    style = assets.static_files()["base.css"].decode()
    for name in used:
        # Light, dark by the system, dark by choice
        assert len(re.findall(rf"--{name}:", style)) == 3, name


def test_modules_know_every_chart() -> None:
    layouts = assets.static_files()["chart_layouts.js"].decode()
    known = set(re.findall(r"^  (\w+): ", layouts.split("export const LAYOUTS")[1], re.MULTILINE))
    assert known == set(json.loads(chart_files.content()))


def test_the_waterfall_has_every_cause() -> None:
    script = assets.static_files()["waterfall.js"].decode()
    listed = re.findall(r'"(\w+)"', script.split("export const CAUSES")[1].split("]")[0])
    assert sorted([*listed, "gpu_hours_useful"]) == sorted(ATTRIBUTION_COLUMNS)
