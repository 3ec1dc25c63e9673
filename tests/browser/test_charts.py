"""Charts on a page that exists: values, table, width, keys and colours."""

from playwright.sync_api import Page, expect

SCENARIO = """{num_gpus: 64, load_ms: 30, compute_ms: 300,
  communication: {kind: "fixed", allreduce_ms: 80},
  slow_groups: [{count: 1, speed_fraction: 0.7}]}"""
# The page as it is, with a place for one chart more
DRAW = """async ([name, wrapper, path, body]) => {
  const files = document.querySelector("script[src*='chrome.js']").src.replace("chrome.js", "");
  const place = document.createElement("section");
  place.className = "card";
  place.id = "trial";
  document.getElementById("main").prepend(place);
  const answer = await fetch(path, {method: "POST", body: body,
    headers: {"Content-Type": "application/json"}});
  window.given = await answer.json();
  const draw = (await import(files + name))[wrapper];
  window.shown = draw(place, wrapper === "waterfall" ? window.given.result : window.given);
}"""


def draw(page: Page, address: str, name: str, wrapper: str, body: str, path: str = "") -> None:
    page.goto(address)
    whole = page.evaluate(f"JSON.stringify({body})")
    page.evaluate(DRAW, [name, wrapper, f"/v1/evaluations{path}", whole])
    # The chart library is bundled for the first one.
    expect(page.locator("#trial svg")).to_be_visible()


def test_a_waterfall_has_its_values_its_table_and_the_width_of_its_place(
    page: Page, base_url: str
) -> None:
    draw(page, f"{base_url}/", "waterfall.js", "waterfall", f"{{scenario: {SCENARIO}}}")
    chart = page.locator("#trial").get_by_role("img", name="Where the GPU-hours go")
    # Of 64 GPUs in 30 days; the slow one costs 300 / 0.7 - 300 of 538.6 ms
    for text in ("46,080", "Slow GPUs", "11,001", "Useful compute", "25,668"):
        expect(chart.get_by_text(text, exact=True)).to_be_visible()
    expect(page.locator("#trial details table")).to_be_hidden()
    page.locator("#trial").get_by_text("Table of these values").click()
    expect(page.locator("#trial").get_by_role("row", name="Slow GPUs 11,001")).to_be_visible()
    wide = page.evaluate("document.querySelector('#trial svg').clientWidth")
    page.set_viewport_size({"width": 420, "height": 900})
    expect(page.locator("#trial svg")).not_to_have_attribute("width", str(wide))
    assert page.evaluate("document.documentElement.scrollWidth") == 420
    # Colours are those of the theme: the same marks, without being drawn again
    bar = page.locator("#trial .mark-rect path").nth(1)
    before = bar.evaluate("mark => (window.bar = mark, getComputedStyle(mark).fill)")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert before == "rgb(191, 63, 12)"
    assert page.evaluate("[window.bar.isConnected, getComputedStyle(window.bar).fill]") == [
        True,
        "rgb(242, 144, 92)",
    ]


def test_a_thousand_gpus_stay_responsive(page: Page, base_url: str) -> None:
    body = f"{{ranks_limit: 1000, scenario: {{...{SCENARIO}, num_gpus: 1024}}}}"
    draw(page, f"{base_url}/compare", "gpu_timeline.js", "gpuTimeline", body)
    chart = page.get_by_role("img", name="One step, GPU by GPU")
    expect(chart.get_by_text("▸ GPU 0")).to_be_visible()
    # One shape a kind, whatever the number of rows
    assert page.locator("#trial .mark-area path").count() == 4
    assert page.locator("#trial svg *").count() < 200
    # Every update is painted before the next: a frame lies between any two.
    frames = page.evaluate("""async () => {
      let frames = 0, isOver = false;
      const tick = () => { frames += 1; if (!isOver) requestAnimationFrame(tick); };
      requestAnimationFrame(tick);
      for (let update = 0; update < 10; update += 1) {
        await window.shown.update(window.given);
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      }
      isOver = true;
      return frames;
    }""")
    assert frames >= 10
    # The values of each row, by keys alone
    chart.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#live")).to_have_text(
        "GPU 0, the slowest, Speed 70.0%, Computes 428.57 ms, Waits 0 ms"
    )
    page.keyboard.press("End")
    expect(page.locator("#live")).to_contain_text("Speed 100.0%, Computes 300.00 ms, Waits 128.57")
    page.keyboard.press("Escape")
    expect(page.locator(".chart-tip")).to_be_hidden()


def test_a_pipeline_of_many_operations_is_shown_in_parts(page: Page, base_url: str) -> None:
    pipeline = "{schedule: '1f1b', stages: 8, microbatches: 512, forward_ms: 10, backward_ms: 20}"
    body = f"{{scenario: {{num_gpus: 8, pipeline: {pipeline}}}}}"
    draw(page, f"{base_url}/compare", "pipeline_timeline.js", "pipelineTimeline", body, "/timeline")
    part = page.get_by_label("Part of the step")
    expect(part).to_be_visible()
    expect(page.get_by_text("8,193 operations are more than can be seen at once")).to_be_visible()
    assert 1500 < page.locator("#trial .mark-rect path").count() <= 2600
    axis = page.locator("#trial .role-axis-label text")
    expect(axis.first).to_have_text("0 ms")
    part.focus()
    page.keyboard.press("End")
    expect(axis.first).not_to_have_text("0 ms")
    expect(axis.last).to_have_text("15,500 ms")


def test_a_curve_says_which_sizes_are_left_out(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/")
    asked = page.evaluate("""async () => {
      const files = document.querySelector("script[src*='chrome.js']").src.replace("chrome.js", "");
      const {curveParts} = await import(files + "simulator_requests.js");
      const {lossCurve} = await import(files + "loss_curve.js");
      const place = document.createElement("section");
      place.id = "trial";
      document.getElementById("main").prepend(place);
      const failed = (value, code) => ({value, failure: {code, detail: ""}});
      lossCurve(place, {isCoarse: true, rows: [
        failed(8, "too_many_slow_gpus"),
        failed(2048, "too_long_at_once"),
        failed(8192, "too_long_at_once")]});
      const law = {kind: "normal", cv: 0.05};
      const node = {num_gpus: 64, variability: {node: law, episodes: {severity: 2}}};
      return [curveParts({num_gpus: 64}, "closed_form"), curveParts({num_gpus: 64}, "recursion"),
        curveParts(node, "quadrature")];
    }""")
    said = page.locator("#trial > p.hint")
    expect(said).to_have_text(
        "Fewer sizes are shown, as each takes long to compute. Sizes left out, as they would take "
        "too long at once: 2,048 · 8,192 GPUs. Sizes that cannot be computed: 1."
    )
    few = {"path": "num_gpus", "values": [8, 32, 64, 128, 512, 2048, 8192, 32768, 131072]}
    assert asked == [
        {"single_draw": True, "leave_out": []},
        {"single_draw": True, "leave_out": [], "axis": few},
        {"single_draw": True, "leave_out": ["spread"], "axis": few},
    ]
