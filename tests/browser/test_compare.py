"""Two batches and two nights side by side, and what a scenario lost from run to run."""

import csv
import io
import re
from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from service.cli.http_client import open_client, read, submit_batch, wait_for_batch
from tests.browser.seeded import SLOTS, Seeded

pytestmark = pytest.mark.browser


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
    expect(chart).to_contain_text("22,529,086")
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
    expect(page.get_by_role("combobox", name="New")).to_have_value(
        "Jun 2, 2024, 02:00 AM (UTC+02:00)"
    )
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
    # In the schedule's zone, as its ledger shows it
    assert newest[0] == "dim. 2 juin 2024, 02:00 (UTC+02:00)"
    assert newest[3:6] == ["169\u202f706", "\u22126\u202f302", "356\u202f383,43\u00a0€"]
    assert oldest[3:5] == ["176\u202f008", ""]
    assert (newest[13], oldest[13]) == ("5\u202f657", "5\u202f867")
    expect(place.locator(".causes").first).to_contain_text("Profil\u202f: All-reduce: 80.0 → 100.0")
    charts = page.locator("#charts").get_by_role("img")
    expect(charts).to_have_count(2)
    page.get_by_label("Une ligne par").select_option("team")
    expect(place.locator("tbody tr").first).to_contain_text("toute l\u2019équipe")
    page.go_back()
    expect(place.locator("tbody tr").first).to_contain_text("prod-h100@2")
    # Both days count, and the days back are not asked for beside them
    page.goto(f"{seeded.url}/history?schedule=nightly&from=2024-06-01&to=2024-06-01&window=7d")
    expect(place.locator("tbody tr")).to_have_count(1)
    assert rows_of(place)[0][3] == "176\u202f008"
    expect(page.get_by_label("Premier jour")).to_have_value("2024-06-01")
    page.goto(f"{seeded.url}/history?scenario=one+slow+GPU&lang=en")
    found = read(api, "/v1/loss-history", scenario="one slow GPU")["items"]
    lost = [f"{row['gpu_hours_lost_per_30_days']:,.0f}" for row in reversed(found)]
    assert [row[3] for row in rows_of(place)] == lost


def test_a_batch_is_priced_again_and_its_pricings_are_compared(page: Page, base_url: str) -> None:
    """One GPU of 8 has 70 % of the speed; the price of 2 was wrong, it is 3."""
    gpu_type = f"T{uuid4().hex[:8]}"
    rate = {"gpu_type": gpu_type, "cost_center": None, "valid_from": "2020-01-01", "source": "memo"}
    price = {"amount": "2.00", "currency": "EUR"}
    with open_client(base_url) as api:
        made = api.post("/v1/gpu-hour-rates", json={**rate, "price_per_gpu_hour": price})
        scenario = {
            "num_gpus": 8,
            "load_ms": 30,
            "compute_ms": 300,
            "communication": {"kind": "fixed", "allreduce_ms": 80},
            "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
        }
        item = {"custom_id": "a", "scenario": scenario, "pricing": {"gpu_type": gpu_type}}
        body = {"name": gpu_type, "currency": "EUR", "items": [item]}
        batch = wait_for_batch(api, submit_batch(api, body, salt=gpu_type), lambda _: None)
        price = {"amount": "3.00", "currency": "EUR"}
        api.post(
            f"/v1/gpu-hour-rates/{made.json()['id']}/corrections",
            json={"price_per_gpu_hour": price, "reason": "the memo was wrong"},
            headers={"If-Match": made.headers["ETag"]},
        ).raise_for_status()
    page.goto(f"{base_url}/batches/{batch['id']}")
    page.get_by_role("button", name="Price anew").click()
    page.get_by_role("dialog").get_by_role("button", name="Price anew").click()
    page.get_by_role("link", name="Compare the first pricing with no. 2").click()
    # 30 days of 8 GPUs, of which 128.57 of each 538.57 ms are lost
    lost = 30 * 24 * 8 * (300 / 0.7 - 300) / (30 + 300 / 0.7 + 80)
    expect(page.locator("#past-new-hours")).to_contain_text(f"{lost:,.0f} → {lost:,.0f}")
    expect(page.locator("#price-effect")).to_have_text(f"+€{lost:,.2f}")
    expect(page.locator("#volume-effect")).to_have_text("€0.00")
    prices = page.locator("#candidate").get_by_label("Prices")
    expect(prices).to_have_value("2")
    prices.select_option("1")
    expect(page.locator("#price-effect")).to_have_text("€0.00")
    expect(page).not_to_have_url(re.compile("pricing"))
    page.go_back()
    page.get_by_role("button", name="Swap past and new").click()
    expect(page.locator("#price-effect")).to_have_text(f"\u2212€{lost:,.2f}")
