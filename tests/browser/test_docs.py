import re

import msgspec
import pytest
from playwright.sync_api import Page, expect

from service.api.problem_types import PROBLEM_TYPES

pytestmark = pytest.mark.browser


def open_docs(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/docs")
    expect(page.locator(".opblock").first).to_be_visible()


def test_the_docs_page_shows_all_operations_and_tries_one_without_leaving_the_host(
    page: Page, base_url: str
) -> None:
    open_docs(page, base_url)
    described = page.request.get(f"{base_url}/openapi.json").json()
    # The messages that webhooks get are shown as operations too.
    shown = {**described["paths"], **described["webhooks"]}
    num_operations = sum(len(methods) for methods in shown.values())
    expect(page.locator(".opblock")).to_have_count(num_operations)
    expect(page.locator(".info .title")).to_contain_text("Trainard")
    block = page.locator("#operations-Evaluations-evaluate_scenario")
    block.locator(".opblock-summary-control").click()
    expect(block.locator("textarea.body-param__text")).to_contain_text('"num_gpus": 1024')
    # What the description refers to is shown in its place.
    block.locator(".opblock-section-request-body .tablinks", has_text="Schema").click()
    schema = block.locator(".opblock-section-request-body .json-schema-2020-12").first
    expect(schema).to_contain_text("overrides")
    expect(block).not_to_contain_text("$ref")
    block.locator(".opblock-section-request-body .tablinks", has_text="Edit Value").click()
    block.locator("button.execute").click()
    live = block.locator(".live-responses-table tbody")
    expect(live.locator(".response-col_status").first).to_contain_text("200")
    body = live.locator(".response-col_description").first
    found = re.search(r'"gpu_hours_lost": ([0-9.]+)', body.inner_text())
    assert found is not None
    assert round(float(found[1])) == 176_008


def test_an_error_leads_to_its_explanation(page: Page, base_url: str) -> None:
    answer = page.request.get(f"{base_url}/v1/nothing")
    problem = msgspec.json.decode(answer.body())
    page.goto(f"{base_url}{problem['type']}")
    expect(page.locator("h1")).to_have_text(PROBLEM_TYPES["unknown-route"].title)
    page.get_by_role("link", name="All problems").click()
    expect(page.locator("li")).to_have_count(len(PROBLEM_TYPES))
