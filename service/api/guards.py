"""Guards against foreign web pages (decisions 18), above all while no key exists.

A page of another site may send requests to a loopback address from the user's browser: through
a name of its own that resolves to 127.0.0.1 (then Host is foreign), or directly (then Origin is).
"""

import re
from typing import Any, Final

from service.api.cross_origin import allowed_origin
from service.errors import TrainardError
from service.settings import Settings

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS", "TRACE")

_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:@/\s]+)(:[0-9]{1,5})?")


class ForeignHostError(TrainardError):
    """The request names a host that this service does not answer for."""

    problem = "foreign-host"


class ForeignOriginError(TrainardError):
    """A page of another origin tries to change something."""

    problem = "foreign-origin"


def refuse_foreign(scope: Any, settings: Settings) -> None:
    """Raise `ForeignHostError` or `ForeignOriginError` for what a web page may have forged."""
    # Two Host headers are joined, and so match no host.
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    host = b", ".join(hosts).decode("latin-1").lower()
    if settings.allowed_hosts:
        found = _HOST.fullmatch(host)
        if found is None or found["name"] not in settings.allowed_hosts:
            raise ForeignHostError(
                f"the Host header is {host!r}, but only {', '.join(settings.allowed_hosts)} "
                "are answered (TRAINARD_ALLOWED_HOSTS)"
            )
    if scope["method"] in SAFE_METHODS or allowed_origin(scope, settings):
        return
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    origin = b", ".join(origins).decode("latin-1").lower()
    # Either scheme: a proxy may have ended TLS in front of the service.
    if origins and origin not in {f"http://{host}", f"https://{host}"}:
        raise ForeignOriginError(
            f"the Origin header is {origin!r}, but only pages of {host!r} may change something"
        )
    sites = {value.lower() for name, value in scope["headers"] if name == b"sec-fetch-site"}
    if b"cross-site" in sites:
        raise ForeignOriginError("the Sec-Fetch-Site header says that another site sent this")
