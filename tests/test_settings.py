"""Settings are read once, and what is malformed is named."""

import pytest

from service.settings import Limits, Settings, read_settings


def test_nothing_set_is_the_defaults() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({}).retention_days == 0


def test_each_variable_sets_its_own() -> None:
    found = read_settings(
        {
            "TRAINARD_RETENTION_DAYS": "400",
            "TRAINARD_MAX_PAGE_SIZE": "20",
            "TRAINARD_ALLOWED_HOSTS": "a.example, b.example",
        }
    )
    assert found.retention_days == 400
    assert found.limits == Limits(page_size=20)
    assert found.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize("days", ["-1", "1.5", "a year"])
def test_a_malformed_retention_is_named(days: str) -> None:
    with pytest.raises(ValueError, match="TRAINARD_RETENTION_DAYS is"):
        read_settings({"TRAINARD_RETENTION_DAYS": days})
