"""The presets: each shows its scenario, and says the API's figures in its sentence."""

import re
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

FIXED: Final = {"kind": "fixed", "allreduce_ms": 80}
START: Final[dict[str, Any]] = {
    "num_gpus": 64,
    "load_ms": 30,
    "compute_ms": 300,
    "communication": FIXED,
    "slow_groups": [{"count": 1, "speed_fraction": 0.7}],
}
# What the founding page prints of each
PRINTED: Final = {
    "one_slow": ("76.13% with 64 GPUs and 76.13% with 1,024", "from 367 to 5,867 GPU-hours"),
    "jitter": ("from 95.05% with 8 GPUs to 89.38% with 1,024",),
    "network": ("from 76.13% to 80.48%", "from 55.70% to 45.55%"),
    "dashboard": ("shows 100% utilization", "55.70%", "367 GPU-hours"),
    "pipeline": ("With 3 micro-batches 2.40 of 8 GPUs", "with 4 it is 2.91"),
}


def sentence(page: Page, name: str) -> str:
    page.locator(f'[data-try="{name}"]').click()
    proof = page.locator(f'[data-proof="{name}"]')
    expect(proof).to_be_visible()
    expect(page.locator(f'[data-try="{name}"]')).to_have_attribute("aria-pressed", "true")
    return proof.inner_text()


def evaluated(base_url: str, **changes: Any) -> dict[str, Any]:
    body = {"scenario": {**START, **changes}, "ranks_limit": 0}
    result: dict[str, Any] = httpx.post(f"{base_url}/v1/evaluations", json=body).json()["result"]
    return result


def test_each_preset_says_what_it_proves(page: Page, base_url: str) -> None:
    page.goto(base_url)
    for name, parts in PRINTED.items():
        said = sentence(page, name)
        for part in parts:
            assert part in said

    law = {"kind": "normal", "cv": 0.05}
    local = {"kind": "local_steps", "steps": 10}
    slowest = [
        evaluated(base_url, slow_groups=[], variability={source: law}, **changes)
        for source in ("transient", "persistent")
        for changes in ({}, {"synchronization": local})
    ]
    often, rarely, lasting, lasting_rarely = (one["slowest_compute_mean_ms"] for one in slowest)
    said = sentence(page, "local_steps")
    assert f"takes {rarely:.2f} ms a step instead of {often:.2f}" in said
    assert f"{lasting_rarely:.2f} ms, as before ({lasting:.2f})" in said
    # Jitter is averaged out, slowness is not.
    assert rarely < often
    assert lasting_rarely == pytest.approx(lasting)

    buckets = {"kind": "buckets", "num_buckets": 25, "contention_fraction": 0}
    hidden = evaluated(base_url, overlap=buckets)
    said = sentence(page, "overlap")
    assert f"a step takes {hidden['step_mean_ms']:.2f} instead of 538.57 ms" in said
    assert "428.57 ms of compute instead of 300.00" in said

    failing = evaluated(
        base_url,
        num_gpus=16_384,
        slow_groups=[],
        failures={
            "failures_per_1000_node_days": 6.5,
            "detection_s": 60,
            "restart_s": 240,
            "checkpoint_write_s": 30,
        },
    )
    said = sentence(page, "failures")
    assert f"{failing['time_ratio_fraction']:.1%} of the time" in said
    assert f"{failing['gpu_hours_lost_per_day']:,.0f} GPU-hours a day" in said
    # How many come is random; what is shown is their mean.
    expect(page.locator('[data-note="spread"]')).to_contain_text("at their expected rate")


def test_a_preset_is_a_scenario_like_any_other(page: Page, base_url: str) -> None:
    page.goto(base_url)
    sentence(page, "pipeline")
    expect(page.locator('[data-path="pipeline.microbatches"]')).to_have_value("4")
    pipeline = page.locator("#pipeline")
    expect(pipeline).to_contain_text("2.91 of 8 stages work on average")
    expect(pipeline.locator("svg").first).to_be_visible()
    page.wait_for_url(re.compile(r"pipeline\.microbatches=4"))
    # Whoever moves a control leaves the preset.
    page.locator('[data-path="pipeline.microbatches"]').fill("32")
    expect(page.locator("#proof")).to_be_hidden()
    expect(pipeline).to_contain_text("6.56 of 8 stages work on average")
