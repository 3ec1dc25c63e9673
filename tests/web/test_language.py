import pytest

from service.web.language import choose


@pytest.mark.parametrize(
    ("asked", "kept", "accepted", "spoken"),
    [
        (None, None, "", "en"),
        (None, None, "fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", "fr"),
        (None, None, "en-GB,en;q=0.9,fr;q=0.8", "en"),
        (None, None, "fr;q=0.3, en;q=0.9", "en"),
        (None, None, "fr;q=0", "en"),
        (None, None, "de, ja", "en"),
        (None, None, "fr;q=much, *", "en"),
        # What was chosen goes before what the browser likes, what is asked for before both.
        (None, "fr", "en", "fr"),
        (None, "en", "fr", "en"),
        (None, "xx", "fr", "fr"),
        ("en", "fr", "fr", "en"),
        ("fr", None, "en", "fr"),
        # A language that there is not is no wish.
        ("de", None, "", "en"),
        ("de", "fr", "en", "fr"),
        ("", None, "fr", "fr"),
    ],
)
def test_the_language_is_asked_for_or_kept_or_liked(
    asked: str | None, kept: str | None, accepted: str, spoken: str
) -> None:
    assert choose(asked, kept, accepted).language == spoken


def test_only_what_was_asked_for_is_kept() -> None:
    assert choose("fr", None, "").is_asked_for
    assert choose("fr", None, "").cookie.startswith("trainard_language=fr; Path=/;")
    assert not choose(None, "fr", "").is_asked_for
    assert not choose("de", None, "").is_asked_for


def test_a_hostile_header_costs_nothing() -> None:
    assert choose(None, None, ",".join(["xx;q=1"] * 100_000) + ",fr").language == "en"
