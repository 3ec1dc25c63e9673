"""The container files, as far as they can be checked without a container engine."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
import yaml  # type: ignore[import-untyped]  # it comes with yamllint, without types

from service.cli.program import program
from service.cli.serve import is_loopback
from service.cli.worker_processes import STOP_WITHIN_S
from service.db import workers
from service.db.engine import Database
from service.jobs.engine import DRAIN_S
from service.jobs.sweeper import UNSEEN_S
from service.settings import Settings, read_settings
from tests.cli.conftest import Start, environment
from tests.cli.conftest import start as start  # noqa: PLC0414 - a fixture

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
COMPOSE = ("compose.yaml", "compose.sqlite.yaml")
SET = {"POSTGRES_PASSWORD": "s3cret"}
VARIABLE = re.compile(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")

Service = dict[str, Any]


def services(name: str) -> dict[str, Service]:
    found: dict[str, Service] = yaml.safe_load((DOCKER / name).read_text())["services"]
    return found


def ours(name: str) -> Iterator[tuple[str, Service]]:
    """The services that run this program."""
    for key, service in services(name).items():
        if service["image"] == "trainard":
            yield key, service


def resolved(values: Mapping[str, Any], given: Mapping[str, str] = SET) -> dict[str, str]:
    """The environment as `docker compose` makes it of what is set around it."""

    def value(match: re.Match[str]) -> str:
        name, rule, text = match[1], match[2], match[3] or ""
        if name in given:
            return given[name]
        assert rule != ":?", f"{name} must be set"
        return text

    return {name: VARIABLE.sub(value, str(text)) for name, text in values.items()}


class Asked(dict[str, str]):
    """An environment that notes which variables are read."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)


def parsed(command: list[str]) -> dict[str, Any]:
    """The options as the real program reads them; an unknown or malformed one raises."""
    root = click.Context(program)
    name, found, rest = program.resolve_command(root, command)
    assert found is not None, command
    params: dict[str, Any] = found.make_context(name, rest, parent=root).params
    return params


def test_every_command_line_is_one_of_the_program() -> None:
    lines = {
        f"{name}:{key}": parsed(service["command"])
        for name in COMPOSE
        for key, service in ours(name)
    }
    assert set(lines) == {"compose.yaml:api", "compose.yaml:worker", "compose.sqlite.yaml:trainard"}
    assert lines["compose.yaml:api"]["workers"] == 0
    assert lines["compose.yaml:api"]["host"] == lines["compose.sqlite.yaml:trainard"]["host"]
    assert not is_loopback(lines["compose.yaml:api"]["host"])
    assert lines["compose.yaml:worker"]["database_url"] is None
    image = re.findall(r"^CMD (\[.*\])$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert parsed(yaml.safe_load(image[0]))["port"] == 8000
    with pytest.raises(click.NoSuchOption):
        parsed(["worker", "--replicas", "2"])


def test_the_first_key_is_made_as_the_files_say() -> None:
    """Nothing starts on a network without one, so each file begins with how to make it."""
    for name in COMPOSE:
        text = (DOCKER / name).read_text()
        said = re.search(rf"docker compose -f docker/{name} run --rm (\S+) (key create.*)", text)
        assert said is not None
        assert said[1] in dict(ours(name))
        group = program.resolve_command(click.Context(program), ["key"])[1]
        assert isinstance(group, click.Group)
        _, command, rest = group.resolve_command(click.Context(group), said[2].split()[1:])
        assert command is not None
        assert command.make_context("create", rest).params["role"] == "admin"
        assert "allow-unauthenticated" not in text


def test_every_setting_is_one_that_the_program_reads() -> None:
    read: dict[str, Settings] = {}
    for name in COMPOSE:
        for key, service in ours(name):
            around = Asked(resolved(service["environment"]))
            read[f"{name}:{key}"] = read_settings(around)
            settings = {variable for variable in around if variable.startswith("TRAINARD_")}
            assert settings <= around.names
            # What is not ours is read by PostgreSQL's library.
            assert set(around) - settings <= {"PGPASSWORD"}
    api, worker = read["compose.yaml:api"], read["compose.yaml:worker"]
    assert api.database_url == worker.database_url == "postgresql://trainard@postgresql/trainard"
    assert api.allowed_hosts == ("localhost", "127.0.0.1")
    assert worker.compute_processes == 2
    assert read["compose.sqlite.yaml:trainard"].database_url.startswith("sqlite:////var/lib/")


def test_no_secret_is_in_the_files_and_none_is_forgotten() -> None:
    for name in COMPOSE:
        for service in services(name).values():
            for variable, text in service["environment"].items():
                if "PASSWORD" in variable:
                    assert VARIABLE.fullmatch(text)
                    with pytest.raises(AssertionError, match="must be set"):
                        resolved({variable: text}, given={})
    assert "/docker/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_two_workers_wait_for_the_database_and_are_given_time_to_drain() -> None:
    found = services("compose.yaml")
    assert found["worker"]["deploy"]["replicas"] == 2
    for name in COMPOSE:
        for _, service in ours(name):
            grace_s = int(service["stop_grace_period"].removesuffix("s"))
            assert grace_s > max(DRAIN_S, STOP_WITHIN_S) + 10
            assert service["restart"] == "unless-stopped"
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    for key in ("api", "worker"):
        assert found[key]["depends_on"] == {"postgresql": {"condition": "service_healthy"}}
        assert found[key]["healthcheck"]["test"][1] == "python"
    assert "ports" not in found["worker"]
    assert "ports" not in found["postgresql"]
    assert found["api"]["ports"] == ["127.0.0.1:8000:8000"]


def test_the_image_gets_all_that_it_copies() -> None:
    """What is not named in .dockerignore is not sent to the builder."""
    allowed = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    copied = re.findall(
        r"^COPY (?!--from)(.*) \S+$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE
    )
    sources = [source for line in copied for source in line.split()]
    assert "docker/healthcheck.py" in sources
    for source in sources:
        assert (ROOT / source).exists()
        assert any(fnmatch(source, pattern) for pattern in allowed), source


def test_the_wheel_of_the_image_is_made_with_the_pins_of_the_environment() -> None:
    """The image has the installed package: its version is asked for, and it migrates itself."""
    text = (DOCKER / "build.lock").read_text()
    pins = set(re.findall(r"^[a-z-]+==\S+", text, re.MULTILINE))
    built_with = re.findall(r'requires = \["(.*)"\]', (ROOT / "pyproject.toml").read_text())
    assert set(built_with) <= pins
    assert pins <= set(
        re.findall(r"^\S+==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text
    assert "/wheel/*.whl" in (DOCKER / "Dockerfile").read_text()


def check_health(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DOCKER / "healthcheck.py"), *arguments],
        env={**environment(), **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.postgres
def test_a_worker_is_healthy_while_it_is_seen(postgres_url: str) -> None:
    def check() -> int:
        return check_health("worker", TRAINARD_DATABASE_URL=postgres_url).returncode

    def note(host: str, seen_at: datetime) -> None:
        with database.write() as connection:
            workers.record_worker(
                connection,
                name=f"{host}/1/a",
                role="worker",
                host=host,
                process=1,
                compute_processes=2,
                now=seen_at,
            )

    database = Database(postgres_url)
    here, now = os.uname().nodename, datetime.now(UTC)
    assert check() == 1
    note("elsewhere", now)
    assert check() == 1
    note(here, now - timedelta(seconds=UNSEEN_S + 1))
    assert check() == 1
    note(here, datetime.now(UTC))
    assert check() == 0
    database.close()


def test_a_service_is_healthy_while_it_answers(start: Start) -> None:
    process = start("serve", "--port", "0")
    assert process.stdout is not None
    address = process.stdout.readline().split()[4]
    assert check_health(f"{address}/readyz").returncode == 0
    assert check_health(f"{address}/nothing").returncode == 1
    process.terminate()
    process.wait(timeout=60)
    assert check_health(f"{address}/readyz").returncode == 1
