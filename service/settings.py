"""Settings: one frozen struct, read once from the environment (prefix `TRAINARD_`)."""

import base64
import email.utils
import importlib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

DEFAULT_DATABASE_URL = "sqlite:///data/trainard.db"
MAX_SESSION_HOURS = 720
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
# With HS… the verifying key could make tokens too; "none" is no signature.
SIGNATURES = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)

_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request, shown by `/v1/meta`."""

    body_bytes: int = 16 * 1024 * 1024
    items_per_batch: int = 1_000
    points_per_batch: int = 5_000_000
    draws_per_batch: int = 2_000_000_000
    page_size: int = 1_000
    unfinished_batches: int = 1_000
    event_streams: int = 500
    export_streams: int = 8
    comparison_streams: int = 2
    stall_s: int = 60
    wait_s: int = 60
    requests_per_minute: int = 3_000
    points_per_hour: int = 100_000_000
    filters: int = 20
    query_bytes: int = 16_384
    header_bytes: int = 32_768
    header_s: int = 10
    body_s: int = 60
    connections: int = 2_000
    schedules: int = 500
    schedule_interval_minutes: int = 15
    webhook_endpoints: int = 100
    calibration_bytes: int = 1024 * 1024 * 1024
    calibration_files: int = 256


class Oidc(msgspec.Struct, frozen=True, kw_only=True):
    """Whose bearer tokens are taken beside API keys; none while `issuer` is empty.

    `roles` maps a value of the claim `role_claim` (a path such as `realm_access.roles`) to a role
    of ours, with scopes beside it where it says `planner+costs:read`. The team is the slug in
    `team_claim` where the token has it, else `team`; empty: such a token is refused. Without
    `jwks_url` the issuer is asked for it (`/.well-known/openid-configuration`).
    """

    issuer: str = ""
    audience: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    jwks_url: str = ""
    role_claim: str = "roles"
    roles: dict[str, str] = {}
    team_claim: str = "team"
    team: str = ""
    name_claim: str = "email"


class Deliveries(msgspec.Struct, frozen=True, kw_only=True):
    """How reports leave the service; what is not set up cannot be asked for.

    - `public_url`: where readers reach this service, for links in messages;
    - `folder`: directory deliveries write beneath it only; empty: there are none;
    - `smtp_url`: `smtp://user:password@host:587` (STARTTLS), `smtps://…` (TLS at once) or
      `smtp+plain://…` (no TLS; loopback only); `email_from` and the `email_domains` that mail may
      go to (empty: any) beside it;
    - `egress`: private networks that webhooks may reach all the same, such as 10.1.0.0/16;
    - `secrets_key`: encrypts webhook secrets at rest (Fernet keys, the newest first, by comma);
      empty: they lie in the database as they are.
    """

    public_url: str = ""
    folder: str = ""
    smtp_url: str = ""
    email_from: str = ""
    email_domains: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()
    secrets_key: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two installations.

    `allowed_hosts` are the values of the Host header (without port) that are answered while no
    authentication exists; empty means that any is. Batches that ended more than
    `retention_days` ago are deleted; 0 keeps them for ever. Traces are sent to the OpenTelemetry
    collector at `otlp_endpoint`, such as http://collector:4318; empty: nowhere. Events of the
    audit trail are removed after `audit_retention_days`; 0 keeps them for ever. Forwarded headers
    are believed from the addresses `trusted_proxies` only; pages of `cors_origins` may call the
    API. With `public_metrics` /metrics needs no key. Reports older than `report_retention_days`
    and the log of deliveries older than `delivery_retention_days` are removed; 0 keeps them. Who
    signs in on the pages is signed out after `session_hours`. Uploaded files lie below
    `spool_folder` while they are read; empty: the temporary folder of the system.
    """

    database_url: str = DEFAULT_DATABASE_URL
    allowed_hosts: tuple[str, ...] = LOOPBACK_HOSTS
    compute_processes: int = 0
    retention_days: int = 0
    otlp_endpoint: str = ""
    audit_retention_days: int = 0
    trusted_proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    public_metrics: bool = False
    oidc: Oidc = Oidc()
    deliveries: Deliveries = Deliveries()
    report_retention_days: int = 0
    delivery_retention_days: int = 90
    session_hours: int = 12
    spool_folder: str = ""
    log_level: str = "INFO"
    limits: Limits = Limits()


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; raises `ValueError` that names the variable when one is malformed."""
    found: dict[str, object] = {
        field: read(variable, text)
        for field, read in _READERS.items()
        if (text := environment.get(variable := f"TRAINARD_{field.upper()}"))
    }
    found["oidc"] = _oidc(environment)
    found["deliveries"] = _deliveries(environment)
    limits = {
        name: _count(variable, environment[variable])
        for name in Limits.__struct_fields__
        if (variable := f"TRAINARD_MAX_{name.upper()}") in environment
    }
    return msgspec.convert({**found, "limits": limits}, Settings)


def _text(_variable: str, text: str) -> str:
    return text


def _level(_variable: str, text: str) -> str:
    return text.upper()


def _names(_variable: str, text: str) -> tuple[str, ...]:
    return _parts(text)


def _count(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{variable} is {text!r}, but must be a whole number")
    return int(text)


def _session_hours(variable: str, text: str) -> int:
    hours = _count(variable, text)
    if not 1 <= hours <= MAX_SESSION_HOURS:
        raise ValueError(f"{variable} is {text!r}, but must be from 1 to {MAX_SESSION_HOURS}")
    return hours


def _collector(variable: str, url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(
            f"{variable} is {url!r}, but must be the http or https address of a collector"
        )
    try:
        importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise ValueError(
            f"{variable} is set, but OpenTelemetry is not installed: pip install 'trainard[otel]'"
        ) from error
    return url


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _switch(variable: str, text: str) -> bool:
    values = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if text.lower() not in values:
        raise ValueError(f"{variable} is {text!r}, but must be true or false")
    return values[text.lower()]


# 10.0.0.0/8 and fc00::/7 are the widest private networks.
WIDEST_PREFIX = {4: 8, 6: 7}


def _networks(variable: str, text: str) -> tuple[str, ...]:
    """Addresses or networks; never all of them: then everybody could say who they are."""
    for part in _parts(text):
        try:
            network = ipaddress.ip_network(part)
        except ValueError as error:
            raise ValueError(
                f"{variable} has {part!r}, but must list addresses or networks of proxies such as "
                f"10.0.0.7 or 10.0.0.0/24: {error}"
            ) from None
        if network.prefixlen < WIDEST_PREFIX[network.version]:
            raise ValueError(
                f"{variable} has {part!r}, but so many addresses are not all proxies: anybody of "
                "them could say to be anybody"
            )
    return _parts(text)


def _origins(variable: str, text: str) -> tuple[str, ...]:
    for part in _parts(text):
        if not _ORIGIN.fullmatch(part):
            raise ValueError(
                f"{variable} has {part!r}, but must list origins such as https://bi.example: "
                "scheme and host in small letters, no path, no *"
            )
    return _parts(text)


def _oidc(environment: Mapping[str, str]) -> Oidc:
    """Whose tokens are taken; raises `ValueError` that names the variable."""
    prefix = "TRAINARD_OIDC_"
    variables = {prefix + name.upper(): name for name in Oidc.__struct_fields__}
    for variable in environment:
        if variable.startswith(prefix) and variable not in variables:
            raise ValueError(f"{variable} is no setting of Trainard")
    given = {
        name: text
        for variable, name in variables.items()
        if (text := environment.get(variable, "").strip())
    }
    if not given:
        return Oidc()
    for name in ("issuer", "audience", "roles"):
        if name not in given:
            raise ValueError(
                f"{prefix}{name.upper()} is missing: tokens need an issuer, an audience and roles"
            )
    for name in ("issuer", "jwks_url"):
        if name in given:
            _demand_https(prefix + name.upper(), given[name])
    found: dict[str, object] = {**given, "roles": _roles(prefix + "ROLES", given["roles"])}
    if "algorithms" in given:
        found["algorithms"] = _algorithms(prefix + "ALGORITHMS", given["algorithms"])
    return msgspec.convert(found, Oidc)


def _deliveries(environment: Mapping[str, str]) -> Deliveries:
    """How reports leave the service; raises `ValueError` that names the variable."""
    found: dict[str, object] = {
        field: read(variable, text)
        for field, (variable, read) in _DELIVERY_READERS.items()
        if (text := environment.get(variable, "").strip())
    }
    if "smtp_url" in found and "email_from" not in found:
        raise ValueError("TRAINARD_EMAIL_FROM is missing: mail needs a sender")
    return msgspec.convert(found, Deliveries)


def _public_url(variable: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            f"{variable} is {url!r}, but must be the address of this service for its readers, such "
            "as https://trainard.example"
        )
    return url.rstrip("/")


def _folder(variable: str, path: str) -> str:
    if not Path(path).is_absolute():
        raise ValueError(f"{variable} is {path!r}, but must be an absolute path")
    return path


def _smtp(variable: str, url: str) -> str:
    parts = urlsplit(url)
    kinds = ("smtp", "smtps", "smtp+plain")
    if parts.scheme not in kinds or not parts.hostname or parts.path not in {"", "/"}:
        # Not shown: it may hold a password.
        raise ValueError(
            f"{variable} must be smtp://user:password@host:587 (STARTTLS), smtps://… (TLS at "
            "once) or smtp+plain://… (no TLS, loopback only)"
        )
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{variable}: its port must be a number from 1 to 65535")
    if parts.scheme == "smtp+plain" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
        raise ValueError(f"{variable}: mail goes without TLS to this machine only")
    return url


def _sender(variable: str, text: str) -> str:
    _, address = email.utils.parseaddr(text)
    # The address in ASCII, and no encoded word in it; the name before it may be of any letters.
    is_plain = re.fullmatch(r"(?!.*=\?)[!-;=?A-~]+@[A-Za-z0-9.-]+", address)
    if is_plain is None or not text.isprintable():
        raise ValueError(
            f"{variable} is {text!r}, but must be a sender such as Trainard <trainard@example.org>"
        )
    return text


def _secrets_key(variable: str, text: str) -> str:
    for part in text.split(","):
        try:
            size = len(base64.urlsafe_b64decode(part.strip()))
        except ValueError:
            size = 0
        if size != 32:
            # Not shown: it is a key.
            raise ValueError(
                f"{variable} must be Fernet keys by comma, the newest first: 32 random bytes "
                "each, in URL-safe base64"
            )
    return text


def _demand_https(variable: str, url: str) -> None:
    parts = urlsplit(url)
    loopback = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if not parts.hostname or parts.scheme not in ({"http", "https"} if loopback else {"https"}):
        raise ValueError(f"{variable} is {url!r}, but must be an https address")


def _roles(variable: str, text: str) -> dict[str, str]:
    pairs = [part.rpartition("=") for part in _parts(text)]
    for value, _, role in pairs:
        if not value.strip() or not role.strip():
            raise ValueError(
                f"{variable} is {text!r}, but must be pairs such as "
                "corp-finance=finance,sre=planner"
            )
    return {value.strip(): role.strip() for value, _, role in pairs}


def _algorithms(variable: str, text: str) -> tuple[str, ...]:
    for name in _parts(text):
        if name not in SIGNATURES:
            raise ValueError(f"{variable} has {name!r}, but may list {', '.join(SIGNATURES)} only")
    return _parts(text)


_READERS: dict[str, Callable[[str, str], object]] = {
    "database_url": _text,
    "allowed_hosts": _names,
    "compute_processes": _count,
    "retention_days": _count,
    "otlp_endpoint": _collector,
    "audit_retention_days": _count,
    "trusted_proxies": _networks,
    "cors_origins": _origins,
    "public_metrics": _switch,
    "log_level": _level,
    "report_retention_days": _count,
    "delivery_retention_days": _count,
    "session_hours": _session_hours,
    "spool_folder": _folder,
}
_DELIVERY_READERS: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "public_url": ("TRAINARD_PUBLIC_URL", _public_url),
    "folder": ("TRAINARD_DELIVERY_FOLDER", _folder),
    "smtp_url": ("TRAINARD_SMTP_URL", _smtp),
    "email_from": ("TRAINARD_EMAIL_FROM", _sender),
    "email_domains": ("TRAINARD_EMAIL_DOMAINS", _names),
    "egress": ("TRAINARD_WEBHOOK_EGRESS", _networks),
    "secrets_key": ("TRAINARD_SECRETS_KEY", _secrets_key),
}
