"""The simulator: what the founding page printed, read from the screen."""

import re
import subprocess
from typing import Final

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import PATIENCE_S, guarded_page

pytestmark = pytest.mark.browser

# The next request is answered, and its answer never arrives.
LOSE_ONE_ANSWER = """() => {
  const real = window.fetch;
  window.fetch = async (path, ...given) => {
    if (path !== "/v1/scenario-batches") return real(path, ...given);
    window.fetch = real;
    await real(path, ...given);
    throw new TypeError("lost");
  };
}"""
# What is typed, and the decimal it is in a language: none where it may be meant in two ways
TYPED: Final[dict[str, dict[str, str | None]]] = {
    "en": {
        "1,234": "1234",
        " 1,234,567.50 ": "1234567.50",
        "1.234": "1.234",
        ".5": "0.5",
        "-2.10": "-2.10",
        **dict.fromkeys(("1,23", "1234,567", "1,234,56", "1 234", "1e3", "2,10", ".", "")),
    },
    "fr": {
        "1,234": "1.234",
        "1 234,50": "1234.50",
        "1\u202f234\u00a0567": "1234567",
        "2,10": "2.10",
        **dict.fromkeys(("2.10", "1.234", "12 34", "1,234,5", ",")),
    },
}
READ_DECIMALS = """async ([language, texts]) => {
  const page = document.querySelector('script[src$="/simulator.js"]').src;
  const { typedDecimal } = await import(page.replace(/simulator\\.js$/, "typed_number.js"));
  return texts.map((text) => typedDecimal(text, language));
}"""


def figure(page: Page, name: str) -> Locator:
    return page.locator(f'[data-figure="{name}"]')


def field(page: Page, path: str) -> Locator:
    return page.locator(f'[data-path="{path}"]')


def open_simulator(page: Page, base_url: str, query: str = "") -> None:
    page.goto(f"{base_url}/{query}")
    expect(figure(page, "efficiency")).to_contain_text("%")


def test_the_printed_figures_of_the_founding_page_are_on_the_screen(
    page: Page, base_url: str
) -> None:
    open_simulator(page, base_url)
    expect(figure(page, "efficiency")).to_have_text("76.13%")
    expect(figure(page, "useful")).to_have_text("55.70%")
    expect(figure(page, "displayed")).to_have_text("94.43%")
    expect(figure(page, "lost_day")).to_have_text("367")
    expect(page.locator('[data-note="lost_day"]')).to_contain_text("1,536")
    expect(figure(page, "lost_window")).to_have_text("11,001")
    # The spread and what replacing would give back come when all is computed.
    expect(figure(page, "spread")).to_have_text("11,001")
    expect(figure(page, "reducible_by_eviction")).to_have_text("11,001")


def test_moving_the_slider_by_keyboard_shows_the_loss_of_1024_gpus(
    page: Page, base_url: str
) -> None:
    open_simulator(page, base_url)
    slider = page.locator('[data-slider="num_gpus"]')
    # No more slow GPUs can be chosen than there are.
    slow = page.locator('[data-slider="slow_groups.0.count"]')
    assert slow.evaluate("slider => Number(slider.max)") == 9
    slider.focus()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(field(page, "num_gpus")).to_have_value("1024")
    expect(slider).to_have_attribute("aria-valuetext", "1,024 GPUs")
    # Bounds are those of the API's document.
    expect(field(page, "num_gpus")).to_have_attribute("max", "10000000")
    expect(figure(page, "efficiency")).to_have_text("76.13%")
    expect(figure(page, "lost_day")).to_have_text("5,867")
    expect(figure(page, "lost_window")).to_have_text("176,008")
    # A slower network: efficiency rises, useful compute falls.
    field(page, "communication.allreduce_ms").fill("200")
    expect(figure(page, "efficiency")).to_have_text("80.48%")
    expect(figure(page, "useful")).to_have_text("45.55%")
    # Told to who cannot see it, once the slider rests.
    expect(page.locator("#live")).to_contain_text("Efficiency 80.48%")


def test_variability_without_a_slow_gpu(page: Page, base_url: str) -> None:
    open_simulator(page, base_url, "?num_gpus=8")
    page.get_by_role("button", name="Remove slow group 1").click()
    expect(figure(page, "efficiency")).to_have_text("100.00%")
    field(page, "variability.persistent.cv").fill("5")
    expect(figure(page, "efficiency")).to_have_text("95.05%")
    field(page, "num_gpus").fill("1024")
    expect(figure(page, "efficiency")).to_have_text("89.38%")
    expect(figure(page, "spread")).to_have_text("69,425 \u2013 88,151")
    # Drawn anew in every step the mean is the same, and no cluster differs from another.
    page.get_by_text("Drawn anew each step").click()
    expect(figure(page, "efficiency")).to_have_text("89.38%")
    expect(figure(page, "spread")).to_have_text(re.compile(r"^78,3\d\d \u2013 78,3\d\d$"))


def test_the_timeline_lists_each_gpu_and_marks_the_slowest(page: Page, base_url: str) -> None:
    open_simulator(page, base_url)
    gpus = page.locator("#gpu-timeline")
    expect(gpus.locator("svg").first).to_be_visible()
    expect(gpus).to_contain_text("▸ GPU 0")
    gpus.locator("summary").first.click()
    rows = gpus.locator("tbody tr")
    expect(rows).to_have_count(16)
    expect(rows.nth(0)).to_contain_text(re.compile(r"GPU 0.*70\.0%.*428\.57.*0"))
    expect(rows.nth(1)).to_contain_text(re.compile(r"GPU 1.*100\.0%.*300\.00.*128\.57"))


def test_a_timeline_of_1000_gpus_stays_responsive(page: Page, base_url: str) -> None:
    open_simulator(
        page,
        base_url,
        "?num_gpus=1024&variability.persistent.kind=normal"
        "&variability.persistent.cv=0.02&rows=1000",
    )
    expect(page.locator("#gpu-timeline svg").first).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-completed", "1")
    elapsed = page.evaluate(
        """async () => {
          const root = document.documentElement;
          const slider = document.querySelector('[data-slider="load_ms"]');
          const times = [];
          for (let turn = 0; turn < 3; turn += 1) {
            const before = Number(root.dataset.pictured);
            const since = performance.now();
            slider.value = String(Number(slider.value) + 1);
            slider.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((done) => {
              const look = () =>
                Number(root.dataset.pictured) > before ? done() : setTimeout(look, 4);
              look();
            });
            times.push(performance.now() - since);
          }
          return Math.min(...times);
        }"""
    )
    assert elapsed < 1_000


def test_the_address_holds_the_scenario(page: Page, base_url: str) -> None:
    open_simulator(page, base_url)
    field(page, "num_gpus").fill("1024")
    page.wait_for_url(f"{base_url}/?num_gpus=1024")
    field(page, "slow_groups.0.speed_fraction").fill("90")
    page.wait_for_url(re.compile(r"slow_groups\.0\.speed_fraction=0\.9$"))
    ninety = figure(page, "lost_day").inner_text()
    page.reload()
    expect(field(page, "slow_groups.0.speed_fraction")).to_have_value("90")
    expect(figure(page, "lost_day")).to_have_text(ninety)
    page.go_back()
    expect(figure(page, "lost_day")).to_have_text("5,867")
    expect(field(page, "slow_groups.0.speed_fraction")).to_have_value("70")
    page.go_back()
    expect(figure(page, "lost_day")).to_have_text("367")
    page.go_forward()
    expect(figure(page, "lost_day")).to_have_text("5,867")


def test_going_back_twice_at_once_keeps_the_second_place(page: Page, base_url: str) -> None:
    open_simulator(page, base_url, "?num_gpus=200")
    page.evaluate(
        """async () => {
          for (const gpus of [300, 400, 500]) history.pushState(null, "", `/?num_gpus=${gpus}`);
          const real = window.fetch;
          window.slow = new Promise((done) => {
            window.fetch = async (path, options) => {
              const answer = await real(path, options);
              if (!String(options?.body).includes('"num_gpus":400')) return answer;
              await new Promise((later) => setTimeout(later, 1500));
              setTimeout(done, 700);
              return answer;
            };
          });
          history.back();
          await new Promise((moved) => addEventListener("popstate", moved, { once: true }));
          history.back();
        }"""
    )
    expect(field(page, "num_gpus")).to_have_value("300")
    page.evaluate("window.slow")
    # The answer for 400 came last: nothing of it is shown, and no step of the history was added.
    expect(field(page, "num_gpus")).to_have_value("300")
    expect(page).to_have_url(f"{base_url}/?num_gpus=300")
    page.go_forward()
    expect(field(page, "num_gpus")).to_have_value("400")


def test_what_an_address_says_wrong_is_said_and_not_used(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url, refused=[422]) as page:
        open_simulator(
            page,
            base_url,
            "?num_gpus=many&load_ms=-4&compute_ms=150&__proto__.x=1&constructor.x=1"
            "&%3Cb%3E=1&pipeline.stages=3&price=free",
        )
        faults = page.locator("#address-faults")
        expect(faults).to_contain_text("num_gpus")
        expect(faults).to_contain_text("load_ms")
        expect(faults).to_contain_text("pipeline")
        expect(faults).to_contain_text("<b> cannot be read")
        expect(faults).to_contain_text("constructor")
        expect(faults).to_contain_text("price_per_gpu_hour.amount")
        expect(field(page, "num_gpus")).to_have_value("64")
        expect(field(page, "load_ms")).to_have_value("30")
        # What is right is used.
        expect(field(page, "compute_ms")).to_have_value("150")
        assert page.evaluate("({}).x") is None


def test_what_the_api_refuses_is_said_at_the_field(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url, refused=[422]) as page:
        open_simulator(page, base_url)
        speed = field(page, "slow_groups.0.speed_fraction")
        speed.fill("120")
        expect(speed).to_have_attribute("aria-invalid", "true")
        expect(speed).to_have_accessible_description(re.compile("at most 100"))
        expect(page.locator("#refused")).to_be_visible()
        expect(figure(page, "efficiency")).to_have_text("76.13%")
        speed.fill("70")
        expect(page.locator("#refused")).to_be_hidden()
        expect(page.locator("[aria-invalid]")).to_have_count(0)


def test_a_typed_price_gives_money(page: Page, base_url: str) -> None:
    open_simulator(page, base_url, "?num_gpus=1024")
    page.locator('[data-section="price"] summary').click()
    page.get_by_label("Price per GPU-hour").select_option("typed")
    page.get_by_label("Amount").fill("2.10")
    # 176 008.488… GPU-hours
    expect(figure(page, "cost")).to_have_text("€369,617.82")
    page.wait_for_url(re.compile(r"price=2\.10&currency=EUR$"))
    page.get_by_role("button", name="What would help?").click()
    replaced = page.locator("#remedy-list tr", has_text="Replace slow GPUs")
    expect(replaced).to_contain_text("€369,617.82")
    # A comma parts thousands in English, or is not understood.
    amount, read = page.get_by_label("Amount"), page.locator("#price-read")
    amount.fill("1,23")
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(amount).to_have_accessible_description(re.compile("not surely one number"))
    expect(figure(page, "cost")).to_have_text("\u2013")
    expect(read).to_have_class("fault")
    amount.fill("1,234")
    expect(read).to_have_text("Read as €1,234")
    page.wait_for_url(re.compile(r"price=1234&currency=EUR$"))
    for language, readings in TYPED.items():
        found = page.evaluate(READ_DECIMALS, [language, list(readings)])
        assert found == list(readings.values())


def test_numbers_are_read_as_the_language_of_the_page_writes_them(
    browser: Browser, base_url: str
) -> None:
    """Not as the browser's: 1,5 would be 15 in an English one."""
    with guarded_page(browser, base_url, refused=[422]) as page:
        open_simulator(page, base_url)
        load, speed = field(page, "load_ms"), field(page, "slow_groups.0.speed_fraction")
        load.fill("1,5")
        expect(load).to_have_attribute("aria-invalid", "true")
        expect(load).to_have_accessible_description(re.compile("not surely one number"))
        expect(page.locator("#refused")).to_be_visible()
        # It stands where it was typed, and is said once
        speed.focus()
        expect(load).to_have_value("1,5")
        expect(page.locator(".fault", has_text="not surely")).to_have_count(1)
        load.fill("1,500")
        page.wait_for_url(re.compile(r"load_ms=1500(&|$)"))
        expect(page.locator("[aria-invalid]")).to_have_count(0)
        expect(page.locator("#refused")).to_be_hidden()
        load.fill("2.5e1")
        page.wait_for_url(re.compile(r"load_ms=25(&|$)"))
        speed.focus()
        load.fill("1,5")
        page.locator('[data-slider="load_ms"]').press("ArrowRight")
        expect(page.locator("[aria-invalid]")).to_have_count(0)

        open_simulator(page, base_url, "?lang=fr")
        load.fill("1,5")
        page.wait_for_url(re.compile(r"load_ms=1\.5(&|$)"))
        load.fill("1.5")
        expect(load).to_have_attribute("aria-invalid", "true")
        page.goto(f"{base_url}/?lang=fr&load_ms=2.5")
        expect(field(page, "load_ms")).to_have_value("2,5")


def test_a_french_page_writes_figures_as_french_does(page: Page, base_url: str) -> None:
    open_simulator(page, base_url, "?lang=fr&num_gpus=1024")
    page.locator('button[value="window"]').click()
    # 131 072 GPUs lose 128 times the 176 008 of 1 024: 22.5 million, on an axis by fives
    expect(page.locator("#loss-curve svg text", has_text="20\u202f000\u202f000")).to_have_count(1)
    expect(page.locator("#loss-curve svg text", has_text=re.compile(r"\d[kMG]$"))).to_have_count(0)
    expect(figure(page, "efficiency")).to_have_text("76,13\u202f%")
    expect(figure(page, "lost_window")).to_have_text("176\u202f008")
    expect(page.locator("h1")).to_have_text("Ce que coûte l\u2019attente")


def test_the_copied_request_gives_the_same_figure(page: Page, base_url: str) -> None:
    open_simulator(page, base_url, "?num_gpus=1024")
    page.get_by_role("button", name="Copy as curl").click()
    command = page.locator('[data-shared="curl"]').inner_text()
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, check=True, timeout=PATIENCE_S
    )
    result = msgspec.json.decode(done.stdout)["result"]
    assert f"{result['gpu_hours_lost']:,.0f}" == figure(page, "lost_window").inner_text()


def test_a_revision_never_writes_over_a_colleagues(browser: Browser, base_url: str) -> None:
    profiles = f"{base_url}/v1/cluster-profiles"
    labels = {"name": "Two tabs", "gpu_type": "H100-SXM"}
    first = {**labels, "slug": "two-tabs", "defaults": {"num_gpus": 64, "compute_ms": 300}}
    etag = httpx.post(profiles, json=first).headers["ETag"]
    with guarded_page(browser, base_url, refused=[412]) as page:
        open_simulator(page, base_url, "?profile=two-tabs&load_ms=77")
        theirs = {**labels, "name": "Renamed", "tags": {"site": "par1"}}
        theirs["defaults"] = {"num_gpus": 64, "compute_ms": 999}
        revisions = f"{profiles}/two-tabs/revisions"
        made = httpx.post(revisions, json=theirs, headers={"If-Match": etag})
        assert made.status_code == 201
        dialog = page.get_by_role("dialog")
        save = dialog.get_by_role("button", name="Save")
        page.get_by_role("button", name="Save as profile").click()
        save.click()
        expect(dialog.get_by_role("alert")).to_contain_text("newer revision than two-tabs@1")
        assert httpx.get(f"{profiles}/two-tabs").json()["revision"] == 2
        dialog.get_by_role("button", name="Put my changes on the newest revision").click()
        expect(field(page, "compute_ms")).to_have_value("999")
        expect(field(page, "load_ms")).to_have_value("77")
        # What was made is the base of what comes next: two in a row are no conflict.
        for revision in (3, 4):
            page.get_by_role("button", name="Save as profile").click()
            save.click()
            expect(dialog.get_by_role("link", name=f"two-tabs@{revision}")).to_be_visible()
            dialog.get_by_role("button", name="Close").click()
        stored = httpx.get(f"{profiles}/two-tabs").json()
        assert (stored["name"], stored["tags"]) == ("Renamed", {"site": "par1"})
        assert (stored["defaults"]["compute_ms"], stored["defaults"]["load_ms"]) == (999, 77)
        # What is never null can be taken away by hand too.
        open_simulator(page, base_url, "?profile=two-tabs&variability=none&overlap=none")
        expect(page.locator("#address-faults")).to_be_hidden()
        expect(field(page, "load_ms")).to_have_value("77")


def test_remedies_are_asked_for_and_applied(page: Page, base_url: str) -> None:
    open_simulator(page, base_url)
    page.get_by_role("button", name="What would help?").click()
    first = page.locator("#remedy-list tbody tr").first
    expect(first).to_be_visible()
    page.get_by_role("button", name=re.compile("^Apply: Replace slow GPUs")).click()
    expect(figure(page, "efficiency")).to_have_text("100.00%")


def test_a_scenario_becomes_a_profile_and_a_batch(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url) as page:
        open_simulator(page, base_url, "?num_gpus=512")
        page.get_by_role("button", name="Save as profile").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Short name").fill("from-the-page")
        dialog.get_by_label("Name", exact=True).fill("From the page")
        dialog.get_by_label("GPU type").fill("H100-SXM")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("link", name="from-the-page@1")).to_be_visible()
        stored = httpx.get(f"{base_url}/v1/cluster-profiles/from-the-page").json()
        assert stored["defaults"]["num_gpus"] == 512
        assert stored["defaults"]["slow_groups"][0]["speed_fraction"] == 0.7

        # The profile is a base like the start values.
        page.goto(f"{base_url}/?profile=from-the-page&compute_ms=150")
        expect(field(page, "num_gpus")).to_have_value("512")
        expect(page.get_by_label("Based on")).to_have_value("from-the-page@1")
        page.get_by_role("button", name="Post as batch").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name", exact=True).fill("from the page")
        dialog.get_by_label("Largest cluster").fill("1024")
        page.evaluate(LOSE_ONE_ANSWER)
        dialog.get_by_role("button", name="Post").click()
        expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
        # Made already, though nobody said so: sent again it is answered, and made no second time.
        dialog.get_by_role("button", name="Post").click()
        page.wait_for_url(re.compile("/batches/[0-9a-f-]{36}$"))
        listed = f"{base_url}/v1/scenario-batches?name=from+the+page"
        (batch,) = httpx.get(listed).json()["items"]
        assert page.url.endswith(batch["id"])
        assert batch["points_total"] == 8
