"""The page of inputs: a word finds fields, the address keeps it, a link opens what was hidden."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_fields_are_found_by_words_and_by_links(page: Page, base_url: str) -> None:
    page.goto(f"{base_url}/inputs?lang=fr")
    expect(page.locator("#shown")).to_have_text("115 champs")
    page.get_by_role("searchbox").fill("ECART durables")
    # Accents and case make no difference; the address holds what is looked for.
    expect(page.locator("article.input:visible")).not_to_have_count(115)
    page.get_by_role("searchbox").fill("sauvegarde ecriture")
    expect(page.locator("[id='failures.checkpoint_write_s']")).to_be_visible()
    expect(page.locator("#num_gpus")).to_be_hidden()
    expect(page).to_have_url(f"{base_url}/inputs?find=sauvegarde+ecriture")
    page.reload()
    expect(page.locator("#num_gpus")).to_be_hidden()
    page.goto(f"{base_url}/inputs?lang=en&find=checkpoint#variability.transient.cv")
    field = page.locator("[id='variability.transient.cv']")
    expect(field).to_be_in_viewport()
    expect(field).to_contain_text("from 0 to 1; with pareto from 0 to 3")
    page.get_by_role("searchbox").fill("no such thing")
    expect(page.locator("#none")).to_be_visible()
