"""Two batches and two nights side by side, and what a scenario lost from run to run."""

import csv
import io
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from service.cli.http_client import open_client, read
from tests.browser.seeded import SLOTS, Seeded

pytestmark = pytest.mark.browser
SLOW_MS = 60_000


@pytest.fixture
def api(seeded: Seeded) -> Iterator[httpx.Client]:
    with open_client(seeded.url) as client:
        yield client


def rows_of(place: Locator) -> list[list[str]]:
    """The texts of all cells of the table that is shown, once it has come."""
    expect(place.locator("[aria-busy]")).to_have_count(0)
    expect(place.locator("tbody tr[data-row]").first).to_be_visible()
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
    found: list[list[str]] = place.locator("tbody tr[data-row]").evaluate_all(script)
    return found


def signed(value: float) -> str:
    return f"{value:+,.0f}".replace("-", "\u2212") if abs(value) >= 1000 else "0"


def pick(page: Page, label: str, text: str) -> None:
    """Choose by the keyboard alone, with caps lock on."""
    field = page.get_by_role("combobox", name=label)
    field.focus()
    page.keyboard.type(text.upper())
    listed = page.get_by_role("listbox", name=label)
    expect(listed.get_by_role("option").first).to_contain_text(text)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")


def test_two_batches_are_chosen_by_keyboard_and_compared(
    seeded_page: Page, seeded: Seeded, api: httpx.Client
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/compare")
    expect(page.locator("#choose")).to_be_visible()
    pick(page, "Past", "q1-sizing-ev")
    pick(page, "New", "q1-sizing-ev")
    expect(page.locator("#difference-hours")).to_have_text("0 GPU-hours")
    page.go_back()
    expect(page.locator("#choose")).to_be_visible()
    page.goto(f"{seeded.url}/compare?baseline={seeded.sizing}&candidate={seeded.eviction}")
    expect(page.get_by_role("combobox", name="Past")).to_have_value("q1-sizing")
    asked = {"baseline": seeded.sizing, "candidate": seeded.eviction}
    found = read(api, "/v1/comparisons", **asked, order_by="-magnitude.gpu_hours_lost")
    total = found["summary"]["gpu_hours_lost"]
    expect(page.locator("#difference-hours")).to_have_text(
        f"{signed(total['difference'])} GPU-hours"
    )
    # Of three headline points at 1 024 GPUs: each 176 008 before, one with varying steps left
    expect(page.locator("#past-new-hours")).to_have_text("528,026 → 78,311 GPU-hours · \u221285.2%")
    expect(page.locator("#only-in-baseline")).to_have_text("0")
    profile = page.locator("section[aria-labelledby=by-profile] tbody tr").first
    texts = ["prod-h100", "352,018", "78,311", "\u2212273,707", "\u221277.8%"]
    money = ["\u2212€559,123.21", "\u2212€574,785.33", "+€15,662.12"]
    expect(profile.locator("> *")).to_have_text([*texts, *money])
    rows = rows_of(page.locator("#differences"))
    differences = [signed(row["difference"]["gpu_hours_lost"]) for row in found["items"]]
    assert [row[5] for row in rows] == differences[:25]
    chart = page.get_by_role("img", name="The largest differences")
    expect(chart).to_contain_text("22,529,086", timeout=SLOW_MS)
    # Its bars are named by what tells them apart
    expect(chart).to_contain_text("131,072 · one slow GPU")
    page.goto(f"{seeded.url}/compare?baseline={seeded.sizing}&candidate={seeded.faulty}")
    expect(page.locator("#difference-hours")).to_have_text("\u2013")
    expect(page.locator("#summary")).to_contain_text("nothing to compare")


def test_differences_are_sorted_explained_and_downloaded(seeded_page: Page, seeded: Seeded) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/compare?baseline={seeded.sizing}&candidate={seeded.eviction}")
    place = page.locator("#differences")
    rows_of(place)
    place.get_by_role("button", name="New").click()
    expect(place.locator("th[aria-sort=descending]")).to_contain_text("New")
    expect(place.locator("tbody tr").first).to_contain_text("13,195,268")
    page.get_by_label("Say why each moved").check()
    cause = page.locator(".causes li").first
    expect(cause).to_contain_text("Batch: Slow GPUs")
    expect(cause).to_contain_text("\u221222,529,086 GPU-hours")
    page.reload()
    expect(cause).to_be_visible()
    page.get_by_label("Figure").select_option("efficiency_fraction")
    expect(place.locator("caption")).to_contain_text("Efficiency")
    shown = {(row[0], row[2]): row[5] for row in rows_of(place)}
    assert shown["one slow GPU", "1,024"] == "+23.87%"
    page.locator("#downloads summary").click()
    with page.expect_download() as file:
        page.locator("#downloads").get_by_role("link", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(file.value.path().read_text("utf-8"))))
    assert len(lines) == 35
    known = next(
        line for line in lines if line["name"] == "one slow GPU" and line["num_gpus"] == "1024"
    )
    assert round(float(known["past.gpu_hours_lost"])) == 176_008


def test_two_dates_of_a_schedule_are_compared_by_volume_and_price(
    seeded_page: Page, seeded: Seeded
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/compare")
    page.get_by_label("Choose from").select_option("nightly")
    page.locator("#baseline-on").fill(SLOTS[0])
    expect(page).to_have_url(re.compile(f"baseline={seeded.run_batches[0]}"))
    # The newest run up to that day
    page.locator("#candidate-on").fill("2024-07-01")
    expect(page).to_have_url(re.compile(f"candidate={seeded.run_batches[1]}"))
    expect(page.locator("#difference-hours")).to_have_text("\u22126,302 GPU-hours")
    expect(page.locator("#difference-cost")).to_have_text("\u2212€13,234.39")
    expect(page.locator("#volume-effect")).to_have_text("\u2212€13,234.39")
    expect(page.locator("#price-effect")).to_have_text("€0.00")
    expect(page.locator("#summary")).to_contain_text("The ideal step itself has moved")
    page.reload()
    expect(page.get_by_role("combobox", name="New")).to_have_value("Jun 2, 2024, 2:00 AM")
    page.get_by_role("button", name="Swap past and new").click()
    expect(page.locator("#difference-hours")).to_have_text("+6,302 GPU-hours")
    page.go_back()
    expect(page.locator("#difference-hours")).to_have_text("\u22126,302 GPU-hours")


def test_a_history_says_what_was_lost_and_why_it_moved(
    seeded_page: Page, seeded: Seeded, api: httpx.Client
) -> None:
    page = seeded_page
    page.goto(f"{seeded.url}/history?schedule=nightly&lang=fr")
    place = page.locator("#runs")
    newest, oldest = rows_of(place)
    assert newest[7:11] == [
        "169\u202f706",
        "5\u202f657",
        "\u22126\u202f302",
        "356\u202f383,43\u00a0€",
    ]
    assert oldest[7:10] == ["176\u202f008", "5\u202f867", ""]
    expect(place.locator(".causes").first).to_contain_text("Profil\u202f: All-reduce: 80.0 → 100.0")
    charts = page.locator("#charts").get_by_role("img")
    expect(charts).to_have_count(2, timeout=SLOW_MS)
    page.get_by_label("Une ligne par").select_option("team")
    expect(place.locator("tbody tr").first).to_contain_text("toute l\u2019équipe")
    page.go_back()
    expect(place.locator("tbody tr").first).to_contain_text("prod-h100@2")
    page.goto(f"{seeded.url}/history?scenario=one+slow+GPU&lang=en")
    found = read(api, "/v1/loss-history", scenario="one slow GPU")["items"]
    lost = [f"{row['gpu_hours_lost_per_30_days']:,.0f}" for row in reversed(found)]
    assert [row[7] for row in rows_of(place)] == lost
