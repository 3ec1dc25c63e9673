"""Batches as they run, tables of results and one result explained, read from the screen."""

import csv
import io
import json
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from service.cli.http_client import ENDED, open_client, read
from tests.browser.conftest import guarded_page
from tests.browser.seeded import KNOWN_LOSS_GPU_HOURS, PROFILE, Closed, Seeded

pytestmark = pytest.mark.browser
# Of the item `h100` at 1 024 GPUs: the eighth of its points
KNOWN_POINT = 7
LOST = "Lost [GPU-hours]"
BROKEN = {
    "name": "broken",
    "items": [
        {"custom_id": "a", "scenario": {**PROFILE["defaults"], "load_ms": -1}},
        {"custom_id": "b", "profile": "nobody-has-it"},
    ],
}
# Some seconds of work in several chunks: progress is seen to move
LONG = {
    "name": "followed",
    "reuse": False,
    "items": [
        {
            "custom_id": "varying",
            "scenario": {
                **PROFILE["defaults"],
                "variability": {
                    "transient": {"kind": "normal", "cv": 0.05},
                    "persistent": {"kind": "normal", "cv": 0.02},
                },
            },
            "axes": [
                {"path": "num_gpus", "powers_of_two": {"start": 8, "stop": 131072}},
                {"path": "compute_ms", "range": {"start": 100, "stop": 2000, "step": 100}},
            ],
        }
    ],
}
# All that the progress card said, in order
WATCH = """
window.seen = [];
new MutationObserver(() => {
  const text = document.getElementById("points")?.textContent;
  if (text && window.seen.at(-1) !== text) window.seen.push(text);
}).observe(document, { childList: true, subtree: true });
"""


@pytest.fixture
def api(seeded: Seeded) -> Iterator[httpx.Client]:
    with open_client(seeded.url) as client:
        yield client


def rows_of(place: Page | Locator) -> list[list[str]]:
    """The texts of all cells of the table that is shown, once it has come."""
    expect(place.locator("[aria-busy]")).to_have_count(0)
    expect(place.locator("tbody tr[data-row]").first).to_be_visible()
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    found: list[list[str]] = place.locator("tbody tr[data-row]").evaluate_all(script)
    return found


def column(rows: list[list[str]], place: int) -> list[str]:
    return [row[place] for row in rows]


def thousands(value: float) -> str:
    return f"{value:,.0f}"


def test_batches_are_listed_and_the_address_keeps_the_filter(
    seeded_page: Page, seeded: Seeded
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/batches")
    names = ["Nightly what-if"] * 2 + ["with-faults", "q1-sizing-eviction", "q1-sizing"]
    assert column(rows_of(page), 0) == names
    page.get_by_label("State", exact=True).select_option("partially_failed")
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)
    row = ["with-faults", "Partly failed", "1", "3", "1"]
    assert rows_of(page)[0][:5] == row
    expect(page).to_have_url(re.compile(r"\?state=partially_failed$"))
    page.reload()
    assert rows_of(page)[0][:5] == row
    page.go_back()
    expect(page.locator("tbody tr[data-row]")).to_have_count(5)
    page.get_by_role("link", name="with-faults", exact=True).click()
    faults = page.locator("#faults-table")
    assert rows_of(faults) == [
        [
            "too-many-slow",
            "0",
            "GPUs 64",
            "/slow_groups/0/count",
            "70 slow GPUs, but num_gpus is 64",
        ]
    ]


def test_a_pasted_batch_is_checked_followed_to_its_end_and_deleted(
    browser: Browser, seeded: Seeded, api: httpx.Client
) -> None:
    with guarded_page(browser, seeded.url, refused=[422]) as page:
        page.add_init_script(WATCH)
        page.goto(f"{seeded.url}/batches")
        page.get_by_role("button", name="New batch").click()
        text = page.get_by_label("The batch as JSON")
        text.fill(json.dumps(BROKEN))
        page.get_by_role("button", name="Check only").click()
        faults = page.locator("#batch-form .faults li")
        expect(faults).to_have_count(2)
        expect(faults.nth(0)).to_contain_text("/items/0/scenario/load_ms")
        expect(faults.nth(1)).to_contain_text("/items/1/profile")
        text.fill(json.dumps(LONG))
        page.get_by_role("button", name="Check only").click()
        expect(page.locator("#plan")).to_contain_text("300 points")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_role("button", name="Submit").click()
        page.wait_for_url("**/batches/*-*")
        path = f"/v1/scenario-batches/{page.url.rsplit('/', 1)[1]}"
        try:
            expect(page.locator("[data-state]")).to_have_text("Succeeded")
            expect(page.locator("#points")).to_have_text("300 of 300 points")
            expect(page.locator("#live")).to_contain_text("rows")
            done = [int(one.split()[0].replace(",", "")) for one in page.evaluate("seen")]
            assert done == sorted(set(done))
            assert len(done) > 2
            # By events: the batch itself was asked for once
            assert f"{seeded.url}{path}/events" in asked
            assert asked.count(f"{seeded.url}{path}") == 1
            page.get_by_role("button", name="Delete").click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("“followed”")
            dialog.get_by_role("button", name="Delete").click()
            expect(page.locator("main > .done")).to_have_text("“followed” is deleted.")
            assert api.get(path).status_code == httpx.codes.NOT_FOUND
        finally:
            take_away(api, path)


def take_away(api: httpx.Client, path: str) -> None:
    """Other tests count the batches."""
    found = api.get(path)
    if found.is_success:
        while read(api, path)["state"] not in ENDED:
            api.post(f"{path}/cancellation")
        api.delete(path, headers={"If-Match": api.get(path).headers["ETag"]})


def test_results_are_sorted_filtered_and_paged_by_the_api(
    seeded_page: Page, seeded: Seeded, api: httpx.Client
) -> None:
    page = seeded_page
    path = f"/v1/scenario-batches/{seeded.sizing}/results"
    page.goto(f"{seeded.url}/batches/{seeded.sizing}?page_size=5")
    place = page.locator("#results-table")
    rows_of(place)
    place.get_by_role("button", name=LOST).click()
    expect(place.locator("th[aria-sort=descending]")).to_contain_text(LOST)
    answered = read(api, path, order_by="-gpu_hours_lost", page_size="10")["items"]
    lost = [thousands(row["result"]["gpu_hours_lost"]) for row in answered]
    costs = [f"€{float(row['cost_of_loss']['amount']):,.2f}" for row in answered]
    first = rows_of(place)
    assert (column(first, 6), column(first, 7)) == (lost[:5], costs[:5])
    place.get_by_role("button", name="Next").click()
    expect(place.locator("tbody tr[data-row]").first).to_contain_text(lost[5])
    assert column(rows_of(place), 6) == lost[5:]
    page.reload()
    assert column(rows_of(place), 6) == lost[5:]
    place.get_by_role("button", name="Previous").click()
    expect(place.locator("tbody tr[data-row]").first).to_contain_text(lost[0])
    place.get_by_label("GPUs, at most").fill("1024")
    place.get_by_role("button", name="Condition on any figure").click()
    place.get_by_label("Condition 1: figure or input").fill("gpu_hours_lost")
    place.get_by_label("Condition 1: value").fill("176000")
    expect(page).to_have_url(re.compile("where=gpu_hours_lost%3Age%3A176000"))
    expect(place.locator("tbody tr[data-row]")).to_have_count(3)
    # Each fault at its field, and nothing is asked
    place.get_by_label("GPUs, at least").fill("1e3")
    place.get_by_label("GPUs, at most").fill("many")
    expect(place.locator("[aria-invalid]")).to_have_count(2)
    expect(place.locator(".fault").last).to_have_text("Give a whole number of at least 1.")
    expect(place.locator("tbody tr[data-row]")).to_have_count(3)
    place.get_by_label("GPUs, at least").fill("")
    place.get_by_label("GPUs, at most").fill("1024")
    expect(place.locator("[aria-invalid]")).to_have_count(0)
    kept = rows_of(place)
    assert column(kept, 6) == ["176,009", *["176,008"] * 2]
    assert sorted(column(kept, 7)) == ["no rate", "€369,617.82", "€369,619.82"]
    page.reload()
    assert rows_of(place) == kept
    place.locator("summary").click()
    with page.expect_download() as file:
        place.get_by_role("link", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(file.value.path().read_text("utf-8"))))
    assert [thousands(float(line["gpu_hours_lost"])) for line in lines] == column(kept, 6)


def test_any_output_can_be_a_column(seeded_page: Page, seeded: Seeded) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/results?num_gpus_min=1024&num_gpus_max=1024&name=steps+that+vary")
    rows_of(page)
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Find a column").fill("nine clusters in ten lose")
    dialog.get_by_label("Lost, 90th percentile").check()
    dialog.get_by_role("button", name="Close").click()
    heading = page.get_by_role("columnheader", name="Lost, 90th percentile [GPU-hours]")
    expect(heading).to_be_visible()
    page.reload()
    expect(heading).to_be_visible()
    # The known figures of 5 % from step to step, without and with the slow GPU
    rows = rows_of(page)
    lost = page.locator("th:has([data-sort=gpu_hours_lost])")
    assert column(rows, lost.evaluate("heading => heading.cellIndex")) == ["78,311", "176,009"]


def test_rows_of_all_batches_say_their_gpus_and_their_batch(
    seeded_page: Page, seeded: Seeded
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/results?num_gpus_min=1024&num_gpus_max=1024&name=one+slow+GPU")
    rows = rows_of(page)
    heads = page.locator("thead th").all_inner_texts()
    place = next(at for at, text in enumerate(heads) if text.startswith("GPUs"))
    assert set(column(rows, place)) == {"1,024"}
    link = page.get_by_role("link", name="q1-sizing", exact=True)
    expect(link).to_have_attribute("href", f"/batches/{seeded.sizing}")


def test_a_result_says_what_was_asked_what_it_is_and_how_to_get_it_again(
    seeded_page: Page, seeded: Seeded, api: httpx.Client
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/results/{seeded.sizing}.{KNOWN_POINT}")
    expect(page.get_by_role("heading", level=1)).to_have_text("one slow GPU")
    expect(page.locator("#figure-gpu_hours_lost")).to_have_text(
        f"{thousands(KNOWN_LOSS_GPU_HOURS)} GPU-hours"
    )
    expect(page.locator("#figure-efficiency_fraction")).to_have_text("76.13%")
    expect(page.locator("#figure-cost")).to_have_text("€369,617.82")
    expect(page.locator("[data-column=step_mean_ms]")).to_contain_text("538.57")
    expect(page.locator("section[aria-labelledby=origin]")).to_contain_text("closed form")
    money = page.locator("section[aria-labelledby=money]")
    answered = read(api, f"/v1/results/{seeded.sizing}.{KNOWN_POINT}")
    (rate,) = answered["result"]["rates"]
    expect(money.locator("tbody tr > *")).to_contain_text([rate["id"], "30", "€2.10"])
    expect(page.get_by_role("img", name=re.compile("GPU-hours go"))).to_be_visible()
    body = page.locator("#curl").inner_text().split("-d '", 1)[1].rstrip("'")
    again = api.post("/v1/evaluations", json=json.loads(body)).json()
    assert again["result"]["gpu_hours_lost"] == answered["result"]["result"]["gpu_hours_lost"]
    link = page.get_by_role("link", name="Open in the simulator")
    expect(link).to_have_attribute("href", re.compile(r"^/\?.*num_gpus=1024"))


def test_french_numbers_have_narrow_spaces_and_commas(seeded_page: Page, seeded: Seeded) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/results/{seeded.sizing}.{KNOWN_POINT}?lang=fr")
    expect(page.locator("#figure-gpu_hours_lost")).to_have_text("176\u202f008 heures GPU")
    expect(page.locator("#figure-cost")).to_have_text("369\u202f617,82\u00a0€")
    expect(page.locator("#figure-efficiency_fraction")).to_have_text("76,13\u202f%")
    expect(page.locator("[data-column=gpu_hours_slow_groups]")).to_contain_text(
        "tous les attendent"
    )


def test_a_viewer_sees_no_money_and_changes_nothing(browser: Browser, closed: Closed) -> None:
    seeded = closed.seeded
    with guarded_page(browser, seeded.url) as page:
        page.goto(f"{seeded.url}/sign-in?next=/batches/{seeded.sizing}")
        page.get_by_label("API key").fill(closed.viewer_key)
        page.get_by_label("API key").press("Enter")
        place = page.locator("#results-table")
        assert set(column(rows_of(place), 7)) == {"withheld"}
        expect(page.get_by_role("button", name=re.compile("Delete|Price anew"))).to_have_count(0)
        expect(page.locator("#permission")).to_contain_text("batches:write")
        assert page.locator("[data-sort=cost_of_loss]").count() == 0
        page.goto(f"{seeded.url}/results/{seeded.sizing}.{KNOWN_POINT}")
        expect(page.locator("#figure-cost")).to_have_text("withheld")
        expect(page.locator("body")).not_to_contain_text("369,617")


def test_a_session_that_ends_while_a_batch_is_followed_leads_to_sign_in(
    browser: Browser, closed: Closed
) -> None:
    url, sizing = closed.seeded.url, closed.seeded.sizing
    path = f"{url}/v1/scenario-batches/{sizing}"
    asked: list[str] = []

    def running(route: Route) -> None:
        """The ended batch as if it were running, and its events as if a proxy cut them."""
        if asked:
            route.continue_()
            return
        document = {**route.fetch(url=path).json(), "state": "running"}
        if route.request.url == path:
            route.fulfill(json=document)
            return
        asked.append("events")
        assert page.request.delete(f"{url}/v1/session", headers={"Origin": url}).status == 204
        data = json.dumps(document)
        route.fulfill(
            content_type="text/event-stream", body=f"retry: 20\nevent: progress\ndata: {data}\n\n"
        )

    with guarded_page(browser, url, refused=[401]) as page:
        opened = page.request.post(f"{url}/v1/session", data={"key": closed.viewer_key})
        assert opened.status == 201
        page.route(re.compile(rf"/v1/scenario-batches/{sizing}(/events)?$"), running)
        page.goto(f"{url}/batches/{sizing}")
        expect(page).to_have_url(f"{url}/sign-in?next=%2Fbatches%2F{sizing}")
        expect(page.get_by_label("API key")).to_be_visible()
