"""Signing in and out on a service that asks for a key, and addresses without a page."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import guarded_page
from tests.browser.seeded import Closed

pytestmark = pytest.mark.browser
UNKNOWN_KEY = f"trn_{'0' * 16}_{'A' * 43}"


def sign_in(page: Page, url: str, key: str, following: str | None = None) -> None:
    query = "" if following is None else f"?next={quote(following, safe='')}"
    page.goto(f"{url}/sign-in{query}")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(key)
    page.keyboard.press("Enter")


def test_a_key_signs_in_and_out_by_keyboard(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        sign_in(page, url, closed.admin_key, "/sign-in?x")
        expect(page).to_have_url(f"{url}/")
        expect(page.locator("#session")).to_contain_text("the admin")
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"]) == ("trainard_session", True)
        assert (cookie["sameSite"], cookie["expires"]) == ("Strict", -1)
        # The key is nowhere that a script of the page could read it.
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
        assert "trn_" not in page.evaluate(kept)
        assert cookie["value"] not in page.evaluate(kept)
        page.goto(f"{url}/sign-in?next=%2Frates")
        expect(page.locator("#reason")).to_contain_text("You are signed in as the admin")
        expect(page.get_by_role("link", name="Go on")).to_be_focused()
        expect(page.get_by_role("link", name="Go on")).to_have_attribute("href", f"{url}/rates")
        # Who holds a copy of the cookie has nothing any more once it is signed out.
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("API key")).to_be_focused()
        assert page.context.cookies() == []
        stolen = {"Cookie": f"trainard_session={cookie['value']}"}
        assert page.request.get(f"{url}/v1/meta", headers=stolen).status == 401


def test_a_wrong_key_is_told_at_the_field(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url, refused=[401]) as page:
        page.goto(f"{url}/sign-in?lang=fr")
        field = page.get_by_label(re.compile("Clé d.API"))
        field.fill(UNKNOWN_KEY)
        page.keyboard.press("Enter")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".fault")).to_have_text(
            "Cette clé est refusée\u202f: there is no such API key."
        )
        expect(field).to_be_focused()
        assert "key-fault" in str(field.get_attribute("aria-describedby"))
        assert page.context.cookies("http://127.0.0.1")[0]["name"] == "trainard_language"
        field.fill(closed.viewer_key)
        page.keyboard.press("Enter")
        expect(page.locator("#session")).to_contain_text("the viewer")


def test_signing_in_never_leads_to_another_host(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        signed_in = page.request.post(f"{url}/v1/session", data={"key": closed.viewer_key})
        assert signed_in.status == 201
        for following, leads_to in (
            ("/compare?a=1#x", "/compare?a=1#x"),
            ("//evil.example/", "/"),
            ("/\\evil.example/", "/"),
            ("/.//evil.example/", "//evil.example/"),
            ("javascript:alert(1)", "/"),
            ("https://evil.example/", "/"),
            ("data:text/html,x", "/"),
            (f"blob:{url}/x", "/"),
            ("http://[", "/"),
        ):
            page.goto(f"{url}/sign-in?next={quote(following, safe='')}")
            expect(page.locator("#go-on")).to_be_focused()
            assert page.evaluate("document.getElementById('go-on').href") == url + leads_to


def test_a_visitor_is_asked_for_a_key_and_comes_back(browser: Browser, closed: Closed) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        page.goto(f"{url}/rates?currency=EUR")
        expect(page).to_have_url(f"{url}/sign-in?next=%2Frates%3Fcurrency%3DEUR")
        page.get_by_label("API key").fill(closed.admin_key)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(re.compile(rf"^{url}/rates"))
        expect(page.locator("#session")).to_contain_text("the admin")


def test_a_report_can_be_framed_by_its_own_service_and_by_cookie(
    browser: Browser, closed: Closed
) -> None:
    url = closed.seeded.url
    with guarded_page(browser, url) as page:
        sign_in(page, url, closed.admin_key, "/reports")
        expect(page.get_by_role("heading", level=1)).to_have_text("Reports")
        page.evaluate(
            """(source) => {
              const frame = document.createElement("iframe");
              frame.setAttribute("sandbox", "");
              frame.id = "framed";
              frame.src = source;
              document.body.append(frame);
            }""",
            f"/v1/reports/{closed.seeded.report}/content?format=html",
        )
        inside = page.frame_locator("#framed")
        expect(inside.locator("h1")).to_be_visible()
        # Its own style sheets, which its policy names by digest, are in force.
        sheets = "e => [...e.ownerDocument.styleSheets].map((s) => s.cssRules.length)"
        assert min(inside.locator("body").evaluate(sheets)) > 0


def test_an_open_service_says_that_nobody_signs_in(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/sign-in")
    expect(page.locator("#reason")).to_contain_text("Nobody has to sign in")
    expect(page.locator("#sign-in")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{base_url}/")


def test_an_address_without_a_page_is_a_page(browser: Browser, base_url: str) -> None:
    with guarded_page(browser, base_url, refused=[404]) as page:
        answer = page.goto(f"{base_url}/batchs/1?lang=fr")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("heading", level=1)).to_have_text("Page introuvable")
        expect(page.locator("#address")).to_have_text("/batchs/1")
        page.get_by_role("link", name="Vers le simulateur").click()
        expect(page).to_have_url(f"{base_url}/")
