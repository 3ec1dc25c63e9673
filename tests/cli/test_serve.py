import http.client
import re
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.api.authentication import OPEN_CHECK_S
from service.cli.serve import command
from tests.cli.conftest import Program, Start

READY = re.compile(r"Trainard is ready at http://127\.0\.0\.1:(\d+) \(docs: /docs\)")

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - what must be refused


def ready_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    found = READY.search(process.stdout.readline())
    assert found is not None
    return int(found[1])


def status(
    port: int, path: str, *, method: str = "GET", headers: Mapping[str, str] | None = None
) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    try:
        connection.request(method, path, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


def test_ready_line_is_true_on_a_free_port(start: Start) -> None:
    process = start("serve", "--port", "0", "--database-url", "sqlite:///new/served.db")
    port = ready_port(process)
    assert [status(port, path) for path in ("/healthz", "/readyz", "/docs")] == [200, 200, 200]


def test_interrupt_stops_it(start: Start) -> None:
    process = start("serve", "--port", "0", "--database-url", "sqlite:///served.db")
    ready_port(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=90) == 0


def test_taken_port_is_a_sentence(trainard_process: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = trainard_process(
            "serve", "--port", str(port), "--database-url", "sqlite:///served.db"
        )
    assert refused.returncode == 1
    assert f"port {port}" in refused.stderr
    assert "Traceback" not in refused.stderr


def refusal(*arguments: str) -> str:
    """What `trainard serve` says in this process, where it does not get as far as listening."""
    refused = CliRunner().invoke(command, arguments)
    assert refused.exit_code == 2
    return " ".join(refused.stderr.replace("│", " ").split())


@pytest.mark.parametrize("host", [EVERY_ADDRESS, "::", "192.0.2.1", "example.org"])
def test_an_address_of_the_network_is_refused_without_a_key(sqlite_url: str, host: str) -> None:
    said = refusal("--host", host, "--port", "0", "--database-url", sqlite_url)
    assert "trainard key create --role admin --database-url sqlite:///" in said


@pytest.mark.postgres
def test_the_refusal_shows_no_password(postgres_url: str) -> None:
    url = postgres_url + "&password=s3cret"
    said = refusal("--host", EVERY_ADDRESS, "--port", "0", "--database-url", url)
    assert "trainard key create --role admin" in said
    assert "s3cret" not in said


def test_the_option_of_earlier_versions_is_explained() -> None:
    said = refusal("--host", EVERY_ADDRESS, "--allow-unauthenticated")
    assert "trainard key create --role admin" in said


def test_an_address_of_the_network_is_served_with_a_key(
    trainard: Program, start: Start, tmp_path: Path
) -> None:
    key = trainard("key", "create", "--role", "admin").stdout.strip()
    port = ready_port(start("serve", "--host", EVERY_ADDRESS, "--port", "0"))
    assert [status(port, path) for path in ("/healthz", "/v1/meta")] == [200, 401]
    assert status(port, "/v1/meta", headers={"Authorization": f"Bearer {key}"}) == 200
    # A key is in no log, and neither is a part of it beside its id.
    assert status(port, "/v1/meta", headers={"Authorization": f"Bearer {key}x"}) == 401
    log = (tmp_path / "stderr.log").read_text()
    assert "Authentication is on: API keys." in log
    assert key.split("_", 2)[2] not in log
    assert "open_without_authentication" not in log


def test_the_first_key_closes_a_running_service(
    trainard: Program, start: Start, tmp_path: Path
) -> None:
    port = ready_port(start("serve", "--port", "0"))
    assert status(port, "/v1/meta") == 200
    log = (tmp_path / "stderr.log").read_text()
    assert "WARNING: no authentication." in log
    assert '"event":"open_without_authentication"' in log.replace('": "', '":"')
    trainard("key", "create", "--role", "admin")
    time.sleep(2 * OPEN_CHECK_S)
    assert status(port, "/v1/meta") == 401


def test_malformed_setting_is_named(trainard_process: Program) -> None:
    refused = trainard_process("serve", "--database-url", "mysql://127.0.0.1/x", "--port", "0")
    assert refused.returncode == 1
    assert "must be sqlite or postgresql" in refused.stderr


def test_head_requests_leave_no_error_in_the_log(start: Start, tmp_path: Path) -> None:
    port = ready_port(start("serve", "--port", "0"))
    for path in ("/v1/meta", "/healthz", "/docs", "/v1/results"):
        assert status(port, path, method="HEAD") == 200
    log = (tmp_path / "stderr.log").read_text()
    assert "Traceback" not in log
    assert "answer_broken" not in log
