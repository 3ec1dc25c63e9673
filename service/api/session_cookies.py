"""The cookie of who has signed in on the pages, and which requests it may speak for.

A browser sends it by itself, so it speaks for the service's own pages only: what another page has
the browser send is refused (decisions 24), whatever SameSite lets through. Another port of the
same host is another page too.
"""

import re
from typing import Any, Final

from service.api.guards import SAFE_METHODS
from service.errors import ForbiddenError

NAME: Final = "trainard_session"
# Browsers take it of https only, for this host and all its paths.
SECURE_NAME: Final = f"__Host-{NAME}"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def session_token(scope: Any) -> str | None:
    """What the cookie of the request holds; None without one, "" for what no cookie of ours is."""
    name = _name(scope)
    found = {
        value.strip().strip('"')
        for header, text in scope["headers"]
        if header == b"cookie"
        for part in text.decode("latin-1").split(";")
        for key, _, value in [part.partition("=")]
        if key.strip() == name
    }
    if not found:
        return None
    # Two of one name: somebody else has set one of them.
    (token, *others) = found
    return token if not others and _TOKEN.fullmatch(token) else ""


def set_cookie(scope: Any, token: str) -> str:
    """The value of Set-Cookie that signs in; the browser forgets it when it is closed."""
    secure = "; Secure" if _is_secure(scope) else ""
    return f"{_name(scope)}={token}; Path=/; HttpOnly; SameSite=Strict{secure}"


def clear_cookie(scope: Any) -> str:
    """The value of Set-Cookie that takes it away."""
    return f"{set_cookie(scope, '')}; Max-Age=0"


def refuse_foreign_page(scope: Any) -> None:
    """Raise `ForbiddenError` unless the browser sent the request for a page of this service.

    A change needs the browser's word for it; a read must not have its word against it.
    """
    is_safe = scope["method"] in SAFE_METHODS
    site = _header(scope, b"sec-fetch-site")
    origin = _header(scope, b"origin")
    if site is not None:
        is_ours = site == "same-origin" or (is_safe and (site == "none" or _is_navigation(scope)))
    elif origin is not None:
        host = _header(scope, b"host")
        # Either scheme: a proxy may have ended TLS in front of the service.
        is_ours = origin in {f"http://{host}", f"https://{host}"}
    else:
        # Browsers leave both out where a page reads from its own host over plain http.
        is_ours = is_safe
    if not is_ours:
        raise ForbiddenError(
            f"the session of a browser speaks for the service's own pages only, and {_said(scope)}",
            problem="foreign-page",
        )


def _said(scope: Any) -> str:
    for name in ("Sec-Fetch-Site", "Origin"):
        if value := _header(scope, name.lower().encode()):
            return f"{name} is {value!r}"
    return "neither Sec-Fetch-Site nor Origin says that one of them has sent this"


def _is_navigation(scope: Any) -> bool:
    """Whether the browser itself goes there, in a tab and not within a page."""
    mode, place = _header(scope, b"sec-fetch-mode"), _header(scope, b"sec-fetch-dest")
    return mode == "navigate" and place == "document"


def _header(scope: Any, name: bytes) -> str | None:
    values = [value for header, value in scope["headers"] if header == name]
    return b", ".join(values).decode("latin-1").strip().lower() if values else None


def _is_secure(scope: Any) -> bool:
    return bool(scope["scheme"] == "https")


def _name(scope: Any) -> str:
    return SECURE_NAME if _is_secure(scope) else NAME
