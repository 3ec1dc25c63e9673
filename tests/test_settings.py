"""Settings are read once, and what is malformed is named."""

import pytest

from service.settings import Deliveries, Limits, Oidc, Settings, read_settings


def test_nothing_set_is_the_defaults() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({}).retention_days == 0


def test_each_variable_sets_its_own() -> None:
    found = read_settings(
        {
            "TRAINARD_RETENTION_DAYS": "400",
            "TRAINARD_MAX_PAGE_SIZE": "20",
            "TRAINARD_MAX_DRAWS_PER_BATCH": "5000000",
            "TRAINARD_ALLOWED_HOSTS": "a.example, b.example",
        }
    )
    assert found.retention_days == 400
    assert found.limits == Limits(page_size=20, draws_per_batch=5_000_000)
    assert found.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize("days", ["-1", "1.5", "a year"])
def test_a_malformed_retention_is_named(days: str) -> None:
    with pytest.raises(ValueError, match="TRAINARD_RETENTION_DAYS is"):
        read_settings({"TRAINARD_RETENTION_DAYS": days})


OIDC = {
    "TRAINARD_OIDC_ISSUER": "https://login.example",
    "TRAINARD_OIDC_AUDIENCE": "trainard",
    "TRAINARD_OIDC_ROLES": "corp-finance=finance, cn=sre=planner+costs:read",
}


def test_access_is_set_by_variables() -> None:
    found = read_settings(
        {
            **OIDC,
            "TRAINARD_AUDIT_RETENTION_DAYS": "3650",
            "TRAINARD_TRUSTED_PROXIES": "10.0.0.7, fd00::/8",
            "TRAINARD_CORS_ORIGINS": "https://bi.example,http://localhost:3000",
            "TRAINARD_PUBLIC_METRICS": "true",
            "TRAINARD_OIDC_ALGORITHMS": "RS256,EdDSA",
            "TRAINARD_OIDC_JWKS_URL": "http://127.0.0.1:9/jwks",
            "TRAINARD_OIDC_ROLE_CLAIM": "realm_access.roles",
            "TRAINARD_OIDC_TEAM": "infra",
        }
    )
    assert found.audit_retention_days == 3650
    assert found.trusted_proxies == ("10.0.0.7", "fd00::/8")
    assert found.cors_origins == ("https://bi.example", "http://localhost:3000")
    assert found.public_metrics
    assert found.oidc == Oidc(
        issuer="https://login.example",
        audience="trainard",
        algorithms=("RS256", "EdDSA"),
        jwks_url="http://127.0.0.1:9/jwks",
        role_claim="realm_access.roles",
        roles={"corp-finance": "finance", "cn=sre": "planner+costs:read"},
        team="infra",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUDIT_RETENTION_DAYS", "ever"),
        ("TRUSTED_PROXIES", "*"),
        ("TRUSTED_PROXIES", "0.0.0.0/0"),
        ("TRUSTED_PROXIES", "0.0.0.0/1,128.0.0.0/1"),
        ("TRUSTED_PROXIES", "::/0"),
        ("TRUSTED_PROXIES", "proxy.example"),
        ("TRUSTED_PROXIES", "10.0.0.1/8"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "https://bi.example/"),
        ("CORS_ORIGINS", "null"),
        ("PUBLIC_METRICS", "maybe"),
        ("OIDC_ALGORITHMS", "none"),
        ("OIDC_ALGORITHMS", "RS256,HS256"),
        ("OIDC_ISSUER", "http://login.example"),
        ("OIDC_ISSUER", "login.example"),
        ("OIDC_JWKS_URL", "http://login.example/jwks"),
        ("OIDC_AUDIENCE", ""),
        ("OIDC_ROLES", "finance"),
        ("OIDC_ROLES", "=finance"),
        ("OIDC_CLIENT_SECRET", "x"),
    ],
)
def test_a_malformed_setting_of_access_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"TRAINARD_{name} "):
        read_settings({**OIDC, f"TRAINARD_{name}": value})


def test_tokens_need_more_than_an_audience() -> None:
    with pytest.raises(ValueError, match="TRAINARD_OIDC_ISSUER is missing"):
        read_settings({"TRAINARD_OIDC_AUDIENCE": "trainard"})
    assert read_settings({"TRAINARD_OIDC_ISSUER": ""}) == Settings()


def test_deliveries_are_set_by_variables() -> None:
    found = read_settings(
        {
            "TRAINARD_PUBLIC_URL": "https://trainard.example/",
            "TRAINARD_DELIVERY_FOLDER": "/srv/reports",
            "TRAINARD_SMTP_URL": "smtp://mailer:secret@mail.example:587",
            "TRAINARD_EMAIL_FROM": "trainard@example.org",
            "TRAINARD_EMAIL_DOMAINS": "example.org, example.com",
            "TRAINARD_WEBHOOK_EGRESS": "10.1.0.0/16",
            "TRAINARD_REPORT_RETENTION_DAYS": "3650",
            "TRAINARD_DELIVERY_RETENTION_DAYS": "0",
        }
    )
    assert found.deliveries == Deliveries(
        public_url="https://trainard.example",
        folder="/srv/reports",
        smtp_url="smtp://mailer:secret@mail.example:587",
        email_from="trainard@example.org",
        email_domains=("example.org", "example.com"),
        egress=("10.1.0.0/16",),
    )
    assert (found.report_retention_days, found.delivery_retention_days) == (3650, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PUBLIC_URL", "trainard.example"),
        ("PUBLIC_URL", "https://trainard.example/?key=1"),
        ("DELIVERY_FOLDER", "reports"),
        ("SMTP_URL", "mail.example:25"),
        ("SMTP_URL", "smtp+plain://mail.example:25"),
        ("SMTP_URL", "smtp://mail.example:0"),
        ("SMTP_URL", "smtp://mail.example:65536"),
        ("SMTP_URL", "smtp://mail.example:smtp"),
        ("WEBHOOK_EGRESS", "0.0.0.0/0"),
        ("EMAIL_FROM", "Trainard"),
        ("EMAIL_FROM", "a@example.org\r\nBcc: b@example.org"),
        ("EMAIL_FROM", "a b@exa mple.org"),
        # What no message could be sent from
        ("EMAIL_FROM", "Réseau <réseau@example.org>"),
        ("EMAIL_FROM", "=?utf-8?q?a?=@example.org"),
        ("SECRETS_KEY", "too-short"),
        ("SECRETS_KEY", "ä"),
        ("SECRETS_KEY", f"{'A' * 43}=,"),
    ],
)
def test_a_malformed_setting_of_deliveries_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"TRAINARD_{name}"):
        read_settings({"TRAINARD_EMAIL_FROM": "a@example.org", f"TRAINARD_{name}": value})


def test_mail_needs_a_sender() -> None:
    named = "Réseau <o'brien+x=1@a-b.example.org>"
    assert read_settings({"TRAINARD_EMAIL_FROM": named}).deliveries.email_from == named
    with pytest.raises(ValueError, match="TRAINARD_EMAIL_FROM is missing"):
        read_settings({"TRAINARD_SMTP_URL": "smtps://mail.example"})


def test_a_password_of_mail_is_not_told() -> None:
    with pytest.raises(ValueError, match="TRAINARD_SMTP_URL") as refused:
        read_settings({"TRAINARD_SMTP_URL": "http://me:hunter2@mail.example"})
    assert "hunter2" not in str(refused.value)


def test_secrets_keys_are_taken_newest_first_and_not_told_when_malformed() -> None:
    newest, old = f"{'A' * 43}=", f"{'B' * 42}A="
    found = read_settings({"TRAINARD_SECRETS_KEY": f"{newest}, {old}"})
    assert found.deliveries.secrets_key == f"{newest}, {old}"
    with pytest.raises(ValueError, match="TRAINARD_SECRETS_KEY") as refused:
        read_settings({"TRAINARD_SECRETS_KEY": "hunter2"})
    assert "hunter2" not in str(refused.value)
