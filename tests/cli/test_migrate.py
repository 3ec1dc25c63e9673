import pytest

from service.db import migrate
from tests.cli.conftest import Program


def test_up_shows_what_it_did(trainard: Program) -> None:
    url = "sqlite:///new.db"
    first = trainard("migrate", "--database-url", url)
    assert first.returncode == 0, first.stderr
    assert f"migrated from base (no tables) to {migrate.head()} (newest)" in first.stdout
    assert "nothing to do" in trainard("migrate", "--database-url", url).stdout


def test_down_needs_a_yes(trainard: Program) -> None:
    url = "sqlite:///new.db"
    trainard("migrate", "--database-url", url)
    refused = trainard("migrate", "--database-url", url, "--down-to", "base")
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    done = trainard("migrate", "--database-url", url, "--down-to", "base", "--yes")
    assert "to base (no tables)" in done.stdout


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:SECRET@127.0.0.1:1/x", "postgresql://me:***@127.0.0.1:1/x"),
        ("postgresql://me@127.0.0.1:1/x?password=SECRET", "postgresql://me@127.0.0.1:1/x"),
        ("postgresql:/pw:SECRET@127.0.0.1/x", "postgresql:…"),
        ("postgresql://me:SECRET@127.0.0.1:port/x", "postgresql:…"),
    ],
)
def test_password_is_never_printed(trainard: Program, url: str, shown: str) -> None:
    refused = trainard("migrate", "--database-url", url)
    assert refused.returncode == 1
    assert shown in refused.stderr
    assert "SECRET" not in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr


def test_unknown_revision_is_named(trainard: Program) -> None:
    refused = trainard("migrate", "--database-url", "sqlite:///new.db", "--revision", "nope")
    assert refused.returncode == 1
    assert "nope" in refused.stderr
    assert "Traceback" not in refused.stderr
