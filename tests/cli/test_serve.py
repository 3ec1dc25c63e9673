import http.client
import re
import signal
import socket
import subprocess
from pathlib import Path

from tests.cli.conftest import Program, Start

READY = re.compile(r"Trainard is ready at http://127\.0\.0\.1:(\d+) \(docs: /docs\)")

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - what must be refused


def ready_port(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    found = READY.search(process.stdout.readline())
    assert found is not None
    return int(found[1])


def status(port: int, path: str, *, method: str = "GET") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
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
    assert process.wait(timeout=30) == 0


def test_taken_port_is_a_sentence(trainard: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = trainard("serve", "--port", str(port), "--database-url", "sqlite:///served.db")
    assert refused.returncode == 1
    assert f"port {port}" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_open_address_is_refused_without_the_flag(trainard: Program) -> None:
    for host in (EVERY_ADDRESS, "::", "192.0.2.1", "example.org"):
        refused = trainard("serve", "--host", host, "--port", "0")
        assert refused.returncode == 2
        assert "--allow-unauthenticated" in refused.stderr


def test_open_address_with_the_flag_warns(start: Start) -> None:
    process = start(
        *("serve", "--host", EVERY_ADDRESS, "--port", "0", "--allow-unauthenticated"),
        *("--database-url", "sqlite:///served.db"),
    )
    assert status(ready_port(process), "/healthz") == 200


def test_malformed_setting_is_named(trainard: Program) -> None:
    refused = trainard("serve", "--database-url", "mysql://127.0.0.1/x", "--port", "0")
    assert refused.returncode == 1
    assert "must be sqlite or postgresql" in refused.stderr


def test_head_requests_leave_no_error_in_the_log(start: Start, tmp_path: Path) -> None:
    port = ready_port(start("serve", "--port", "0"))
    for path in ("/v1/meta", "/healthz", "/docs", "/v1/results"):
        assert status(port, path, method="HEAD") == 200
    log = (tmp_path / "stderr.log").read_text()
    assert "Traceback" not in log
    assert "answer_broken" not in log
