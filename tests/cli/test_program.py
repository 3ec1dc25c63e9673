import tomllib
from pathlib import Path

import pytest

from service.cli.program import COMMANDS, load
from tests.cli.conftest import Program

ROOT = Path(__file__).parents[2]


def test_help_lists_every_command(trainard_process: Program) -> None:
    shown = trainard_process("--help")
    assert shown.returncode == 0
    for name, entry in COMMANDS.items():
        assert name in shown.stdout
        assert entry.summary in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_an_example(trainard: Program, name: str) -> None:
    shown = trainard(name, "--help")
    assert shown.returncode == 0
    usage, *explanation = shown.stdout.split("─ Options")[0].strip().splitlines()
    assert f"trainard {name}" in usage
    assert f"trainard {name}" in "\n".join(explanation)


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_is_the_first_sentence_of_the_help(name: str) -> None:
    command = load(name)
    assert command is not None
    assert (command.help or "").splitlines()[0] == COMMANDS[name].summary


def test_unknown_command_is_named(trainard_process: Program) -> None:
    refused = trainard_process("nonsense")
    assert refused.returncode == 2
    assert "No such command 'nonsense'" in refused.stderr


def test_version_is_the_projects(trainard_process: Program) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert trainard_process("--version").stdout == f"trainard {version}\n"
