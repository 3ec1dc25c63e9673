"""A request as it may be kept in the audit trail: without anything that could be a secret."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from service.api.contract import ApiRequest, Contract
from service.api.tracing import trace_id_of
from service.jobs.actors import Actor
from service.jobs.audit import MAX_ADDRESS_LENGTH, MAX_REQUEST_LENGTH

LEFT_OUT: Final = "…"

# Keys and bearer tokens that somebody has put into an address: they are refused there, but the
# refusal is recorded. Of a key its public id is shown.
_SECRETS = (
    (re.compile(r"(trn_[0-9a-f]{16})_[A-Za-z0-9_-]+"), rf"\1_{LEFT_OUT}"),
    (re.compile(r"eyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)+"), LEFT_OUT),
)
_READABLE = "/:,@"
# The place in a list that is sorted by cost is an amount.
_NOT_SHOWN = ("page_token",)


def described(request: ApiRequest, actor: Actor) -> Actor:
    """The actor with what the audit trail keeps of the request; no header is among it."""
    query = _shown_query(request)
    path = shown_path(request.scope) + (f"?{query}" if query else "")
    return msgspec.structs.replace(
        actor,
        request=f"{request.method} {path}"[:MAX_REQUEST_LENGTH],
        trace_id=trace_id_of(request.scope),
        address=address_of(request.scope),
    )


def address_of(scope: Mapping[str, Any]) -> str | None:
    """Where the request comes from; a proxy may forward any text."""
    client = scope.get("client")
    return client[0][:MAX_ADDRESS_LENGTH] if client else None


def shown_path(scope: Mapping[str, Any]) -> str:
    """The path, percent-encoded, so that it holds no control characters."""
    path: str = scope["path"]
    return _without_secrets(quote(path, safe=_READABLE, errors="replace"))


def _shown_query(request: ApiRequest) -> str:
    """The parameters that the operation knows; nobody can say what others hold."""
    query: bytes = request.scope["query_string"]
    if not query:
        return ""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=200)
    except ValueError:
        return LEFT_OUT
    contract: Contract | None = request.scope["route_handler"].opt.get("contract")
    kind = contract.query if contract else None
    known = set(kind.__struct_fields__) - {*_NOT_SHOWN} if kind else set()
    shown = [(name, value) for name, value in pairs if name in known]
    # Encoded anew first, so that nobody hides a secret by encoding letters that need none
    text = _without_secrets(urlencode(shown, safe=_READABLE))
    left_out = [LEFT_OUT] if len(shown) < len(pairs) else []
    return "&".join([*([text] if text else []), *left_out])


def _without_secrets(text: str) -> str:
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text
