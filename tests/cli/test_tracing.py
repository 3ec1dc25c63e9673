import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import TIMEOUT_S, environment
from tests.cli.test_serve import ready_port, status
from tests.otlp_receiver import receiving

# As where the extra is not installed.
WITHOUT_EXTRA = """
import sys
sys.modules["opentelemetry"] = None
from service.cli import main
main()
"""
WORK = """
import sys
from litestar.testing import TestClient
from service.app import create_app
from service.db import migrate
from service.settings import Settings
url = "sqlite:///untraced.db"
migrate.upgrade(url)
with TestClient(create_app(Settings(database_url=url)), base_url="http://127.0.0.1") as client:
    item = {"custom_id": "a", "scenario": {"num_gpus": 8, "compute_ms": 1}}
    body = {"items": [item], "name": "x"}
    answer = client.post("/v1/scenario-batches", json=body, headers={"prefer": "wait=30"})
    assert answer.json()["state"] == "succeeded", answer.text
# Litestar looks for the name of one attribute, if it is there.
tracing = ("opentelemetry.sdk", "opentelemetry.trace", "opentelemetry.exporter")
print([name for name in sys.modules if name.startswith(tracing)])
"""


def run_code(
    folder: Path, code: str, *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**environment(), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_nothing_of_opentelemetry_is_loaded_unless_it_is_asked_for(tmp_path: Path) -> None:
    done = run_code(tmp_path, WORK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_a_collector_without_the_extra_is_refused_with_the_remedy(tmp_path: Path) -> None:
    endpoint = {"TRAINARD_OTLP_ENDPOINT": "http://collector:4318"}
    refused = run_code(tmp_path, WITHOUT_EXTRA, "serve", "--port", "0", **endpoint)
    assert refused.returncode == 1
    assert "TRAINARD_OTLP_ENDPOINT is set" in refused.stderr
    assert "pip install 'trainard[otel]'" in refused.stderr
    assert "Traceback" not in refused.stderr
    # Nothing else needs it.
    assert run_code(tmp_path, WITHOUT_EXTRA, "openapi").returncode == 0


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    refused = run_code(tmp_path, WITHOUT_EXTRA, "serve", TRAINARD_OTLP_ENDPOINT="collector:4318")
    assert refused.returncode == 1
    assert "'collector:4318'" in refused.stderr


@pytest.mark.postgres
def test_the_chunks_of_a_worker_are_in_the_trace_of_their_batch(
    tmp_path: Path, postgres_url: str
) -> None:
    settings = {"TRAINARD_DATABASE_URL": postgres_url}
    with receiving() as receiver:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "service", "serve", "--port", "0"],
            cwd=tmp_path,
            env={**environment(), **settings, "TRAINARD_OTLP_ENDPOINT": receiver.endpoint},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            item = {"custom_id": "a", "scenario": {"num_gpus": 8, "compute_ms": 1}}
            answer = httpx.post(
                f"http://127.0.0.1:{ready_port(process)}/v1/scenario-batches",
                json={"items": [item], "name": "x"},
                headers={"prefer": "wait=60"},
                timeout=90,
            )
            assert answer.json()["state"] == "succeeded", answer.text
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
        (chunk,) = receiver.named("chunk")
        assert chunk.trace_id == answer.json()["id"].replace("-", "")
        assert chunk.resource["trainard.role"] == "worker"
        (submitted,) = receiver.named("batch.submit")
        assert submitted.resource["trainard.role"] == "client"
        assert submitted.attributes["trainard.batch"] == answer.json()["id"]


def test_a_served_request_is_sent_at_the_latest_when_the_service_stops(tmp_path: Path) -> None:
    with receiving() as receiver:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "service", "serve", "--port", "0"],
            cwd=tmp_path,
            env={**environment(), "TRAINARD_OTLP_ENDPOINT": receiver.endpoint},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert status(ready_port(process), "/v1/meta") == 200
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
        assert [span.name for span in receiver.spans()] == ["GET /v1/meta"]
