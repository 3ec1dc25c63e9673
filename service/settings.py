"""Settings: one frozen struct, read once from the environment (prefix `TRAINARD_`)."""

import importlib
import os
from collections.abc import Mapping

import msgspec

DEFAULT_DATABASE_URL = "sqlite:///data/trainard.db"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one request, shown by `/v1/meta`."""

    body_bytes: int = 16 * 1024 * 1024
    items_per_batch: int = 1_000
    points_per_batch: int = 5_000_000
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


class Oidc(msgspec.Struct, frozen=True, kw_only=True):
    """Whose bearer tokens are taken beside API keys; none while `issuer` is empty.

    `roles` maps a value of the claim `role_claim` to a role of ours. The team is the slug in
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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two installations.

    `allowed_hosts` are the values of the Host header (without port) that are answered while no
    authentication exists; empty means that any is. Batches that ended more than
    `retention_days` ago are deleted; 0 keeps them for ever. Traces are sent to the OpenTelemetry
    collector at `otlp_endpoint`, such as http://collector:4318; empty: nowhere. Events of the
    audit trail are removed after `audit_retention_days`; 0 keeps them for ever. Forwarded headers
    are believed from the addresses `trusted_proxies` only; pages of `cors_origins` may call the
    API. With `public_metrics` /metrics needs no key.
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
    log_level: str = "INFO"
    limits: Limits = Limits()


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; raises `ValueError` that names the variable when one is malformed."""
    found: dict[str, object] = {}
    if url := environment.get("TRAINARD_DATABASE_URL"):
        found["database_url"] = url
    if hosts := environment.get("TRAINARD_ALLOWED_HOSTS"):
        found["allowed_hosts"] = tuple(host.strip() for host in hosts.split(",") if host.strip())
    if level := environment.get("TRAINARD_LOG_LEVEL"):
        found["log_level"] = level.upper()
    if processes := environment.get("TRAINARD_COMPUTE_PROCESSES"):
        found["compute_processes"] = _count("TRAINARD_COMPUTE_PROCESSES", processes)
    if days := environment.get("TRAINARD_RETENTION_DAYS"):
        found["retention_days"] = _count("TRAINARD_RETENTION_DAYS", days)
    if endpoint := environment.get("TRAINARD_OTLP_ENDPOINT"):
        found["otlp_endpoint"] = _collector("TRAINARD_OTLP_ENDPOINT", endpoint)
    limits = {
        name: _count(variable, environment[variable])
        for name in Limits.__struct_fields__
        if (variable := f"TRAINARD_MAX_{name.upper()}") in environment
    }
    return msgspec.convert({**found, "limits": limits}, Settings)


def _count(variable: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{variable} is {text!r}, but must be a whole number")
    return int(text)


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
