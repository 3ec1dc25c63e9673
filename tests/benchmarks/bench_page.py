"""The page: from the move of a slider to the updated picture, in Chromium.

131 072 GPUs with every source of variability and a slow GPU, the scenario by the address. The
picture is the figures and the timeline of GPUs (`data-pictured` counts them); complete is it with
spread, waterfall and curve (`data-completed`). Against the whole evaluation, which is what the page
would wait for if nothing could be left out of it.
"""

import shutil
import statistics
import tempfile
import time
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Page, sync_playwright

from tests.benchmarks.processes import trainard

MOVES, WHOLE_MOVES, ANSWERS = 30, 3, 7
PARTS = ["spread", "causes", "quantiles"]
LONGEST_MS = 120_000
SLIDER = "compute_ms"
TARGET_MS = 100
SCENARIO: dict[str, Any] = {
    "num_gpus": 131_072,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": {"kind": "fixed", "allreduce_ms": 80},
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
    "variability": {
        "transient": {"kind": "normal", "cv": 0.05},
        "persistent": {"kind": "normal", "cv": 0.02},
        "node": {"kind": "normal", "cv": 0.01},
        "common": {"kind": "normal", "cv": 0.01},
        "replica": {"kind": "normal", "cv": 0.02},
        "spikes": {"probability": 0.0001, "slowdown": 1.5},
        "episodes": {"rate_per_gpu_day": 0.001, "mean_hours": 2, "severity": 1.3},
    },
}
# An attribute that is there, and is not of so many.
COMPLETED = 'html[data-completed]:not([data-completed="0"]):not([data-completed="{}"])'
MOVE = """async ([name, count]) => {
  const root = document.documentElement;
  const slider = document.querySelector(`[data-slider="${name}"]`);
  const before = Number(root.dataset[count]);
  const since = performance.now();
  const seen = new Promise((done) => {
    new MutationObserver((_, watch) => {
      if (Number(root.dataset[count]) <= before) return;
      watch.disconnect();
      done(performance.now() - since);
    }).observe(root, { attributes: true });
  });
  // Up and down again: the ends of a slider are no moves.
  const way = slider.dataset.way === "down" ? -1 : 1;
  slider.dataset.way = way === 1 ? "down" : "up";
  slider.value = String(Number(slider.value) + way * Number(slider.step || 1));
  slider.dispatchEvent(new Event("input", { bubbles: true }));
  return seen;
}"""


class Times(NamedTuple):
    """Of several moves or answers, ms."""

    median: float
    p90: float

    def __str__(self) -> str:
        return f"{self.median:,.0f} ms (p90 {self.p90:,.0f})"


def times(values: list[float]) -> Times:
    """Median and the value that nine of ten are below."""
    return Times(statistics.median(values), sorted(values)[round(0.9 * (len(values) - 1))])


def query(part: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The scenario as the page's address holds it."""
    found: dict[str, Any] = {}
    for name, value in part.items():
        if isinstance(value, dict):
            found |= query(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found |= query({str(place): one for place, one in enumerate(value)}, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def answers(client: httpx.Client, **more: Any) -> Times:
    """Of the API alone, asked for the same picture: scenarios that differ, as those of a slider."""

    def ask(number: int) -> float:
        body = {"scenario": {**SCENARIO, SLIDER: 300 + number}, "ranks_limit": 16, **more}
        since = time.perf_counter()
        client.post("/v1/evaluations", json=body).raise_for_status()
        return (time.perf_counter() - since) * 1_000

    ask(ANSWERS)
    return times([ask(number) for number in range(ANSWERS)])


def moves(page: Page, count: str, number: int) -> Times:
    """Of the slider, each from the input event to the frame after the picture."""
    return times([cast("float", page.evaluate(MOVE, [SLIDER, count])) for _ in range(number)])


def rows() -> list[dict[str, str]]:
    """First the API alone, then through the page: dragged, and each move left to complete."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("no Chromium on this machine")
    with (
        tempfile.TemporaryDirectory() as folder,
        trainard(f"sqlite:///{folder}/bench.db") as service,
        httpx.Client(base_url=service.address, timeout=120) as client,
        sync_playwright() as playwright,
    ):
        whole, brief = answers(client), answers(client, leave_out=PARTS)
        browser = playwright.chromium.launch(executable_path=program, args=["--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(LONGEST_MS)
        page.goto(f"{service.address}/?{urlencode(query(SCENARIO))}")
        page.wait_for_selector(COMPLETED.format(0), state="attached")
        pictured = moves(page, "pictured", MOVES)
        page.wait_for_selector(COMPLETED.format(1), state="attached")
        completed = moves(page, "completed", WHOLE_MOVES)
        browser.close()
    return [
        _row("answer of the API: means and 16 ranks", brief, whole, "50 ms on a quiet machine"),
        _row("slider move to the updated picture", pictured, whole, f"median < {TARGET_MS} ms"),
        _row("slider move to everything on the page", completed, whole, "reported"),
    ]


def _row(measure: str, found: Times, whole: Times, target: str) -> dict[str, str]:
    return {
        "measure": f"{measure}, 131 072 GPUs, every source",
        "Trainard": str(found),
        "whole evaluation by plain HTTP": str(whole),
        "ratio": f"{found.median / whole.median:.2f}",
        "target": target,
    }


if __name__ == "__main__":
    for row in rows():
        print(row)
