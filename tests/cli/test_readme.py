"""A person with only the README: its commands, run as they stand against a running service."""

import re
import subprocess
import sys
from pathlib import Path

from pyarrow import parquet

from tests.cli.conftest import TIMEOUT_S, Start, environment
from tests.cli.test_serve import ready_port

README = Path(__file__).parents[2] / "README.md"
REFUSED = "too_many_slow_gpus"
# Each command must succeed by HTTP's measure too; a batch may still run when its block ends.
STRICT = """
set -euo pipefail
curl() { command curl --silent --show-error --fail-with-body "$@"; echo; }
"""
WAIT_FOR_BATCH = "sleep 2\n"


def walk() -> list[str]:
    return section("Post, read, compare")


def section(title: str) -> list[str]:
    text = README.read_text().partition(f"\n## {title}")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)


def waiting(block: str) -> str:
    return block + (WAIT_FOR_BATCH if "/scenario-batches -d" in block else "")


def test_the_walk_works_as_it_is_written(start: Start, tmp_path: Path) -> None:
    port = ready_port(start("serve", "--port", "0", "--database-url", "sqlite:///walk.db"))
    *blocks, refused = walk()
    address, *commands = blocks
    assert "127.0.0.1:8000" in address
    address = address.replace("8000", str(port))
    script = STRICT + address + "".join(map(waiting, commands))
    # The clone's own environment is not below the test's folder.
    done = run(script.replace(".venv/bin/trainard", f"{sys.executable} -m service"), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "176008.488" in done.stdout
    assert '"cost_of_loss":{"amount":"176008.49","currency":"EUR"}' in done.stdout
    assert len((tmp_path / "losses.csv").read_text().splitlines()) == 1 + 15
    assert "event: ended" in done.stdout
    saved = parquet.read_table(tmp_path / "losses.parquet")
    assert saved.num_rows == 15
    assert (tmp_path / "losses.parquet.sidecar.json").exists()
    assert REFUSED in run(address + refused, tmp_path).stdout


def test_the_night_works_as_it_is_written(start: Start, tmp_path: Path) -> None:
    port = ready_port(start("serve", "--port", "0", "--database-url", "sqlite:///night.db"))
    api = f"http://127.0.0.1:{port}"
    profile = next(block for block in walk() if '"slug": "my-h100"' in block)
    script = STRICT + f"API={api}\nJSON='Content-Type: application/json'\n" + profile
    program = f"{sys.executable} -m service"
    blocks = section("Every night")
    for command in re.findall(r"\.venv/bin/trainard .*", "".join(blocks)):
        local = command.replace(".venv/bin/trainard", program)
        blocks = [block.replace(command, f"{local} --url {api}") for block in blocks]
    done = run(script + "".join(blocks), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Clocks go forward" in done.stdout
    assert "Budget: within budget, 8,659 of 150,000 GPU-hours (6% used)" in done.stdout
    assert "<!doctype html>" in (tmp_path / "loss.html").read_text().lower()
    assert done.stdout.count("H100 as it is  my-h100                      8,659") == 3


def test_a_calibration_works_as_it_is_written(start: Start, tmp_path: Path) -> None:
    port = ready_port(start("serve", "--port", "0", "--database-url", "sqlite:///calibration.db"))
    api = f"http://127.0.0.1:{port}"
    alone, stored, held = section("What are our own numbers")
    script = STRICT + alone + stored.replace("http://127.0.0.1:8000", api)
    script += held.replace("back-test", f"back-test --url {api}")
    script = script.replace(".venv/bin/trainard", f"{sys.executable} -m service")
    examples = str(README.parent / "service/cli/example")
    done = run(script.replace("service/cli/example", examples), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    # The rows that the README shows
    shown = README.read_text().partition("spread [%]  ")[2].partition("…\n```")[0]
    assert shown in done.stdout
    assert '"calibration_name":"november"' in done.stdout
    assert "december against our-cluster@1: agrees" in done.stdout


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def test_files_that_it_links_to_exist() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
