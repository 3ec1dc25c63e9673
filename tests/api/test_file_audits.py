"""`/v1/overlap-audits/files`: the audit of an upload, which a fit may have too few steps for."""

import json
from typing import Any

import pytest

from tests.api.calibration_tables import table
from tests.calibration.reading.kineto_traces import all_reduce, gemm, step, whole

URL = "/v1/overlap-audits/files"


def trace(rank: int) -> bytes:
    """Four steps with 300 us of transfer, a third of which lies beside compute."""
    events: list[Any] = []
    for number in range(4):
        start = 1_000 * number
        events += [step(number, start, 1_000), gemm(start, 600), all_reduce(start + 500, 300)]
    return json.dumps(whole(events, rank)).encode()


def test_traces_of_four_steps_are_audited_and_nothing_is_kept(shared_client: Any) -> None:
    files = [("file", (f"rank{rank}.json", trace(rank))) for rank in (0, 1)]
    answer = shared_client.post(URL, files=files)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["verdict"], told["route"]) == ("overlaps", "traces")
    assert told["hidden_share"]["low"] == pytest.approx(1 / 3)
    assert told["hidden_share"]["high"] == pytest.approx(1 / 3)
    assert shared_client.get("/v1/calibrations").json()["items"] == []
    refused = shared_client.post("/v1/calibrations", files=files)
    assert URL in refused.json()["errors"][0]["detail"]


def test_files_without_what_an_audit_needs_are_refused(shared_client: Any) -> None:
    answer = shared_client.post(URL, files=[("file", ("a.csv", table()))])
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/refused-timings"
    assert (
        shared_client.post(f"{URL}?name=x", files=[("file", ("a.csv", table()))]).status_code == 400
    )
