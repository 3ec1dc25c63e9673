"""What the caller prefers: `Prefer: wait=10` (RFC 7240)."""

import re

from service.api.contract import ApiRequest, RequestHeader
from service.api.transactions import settings_of

PREFER = RequestHeader(
    name="Prefer",
    description="`wait=N`: answer 200 with the batch and its first results if it has ended within "
    "N seconds (the limit is shown by /v1/meta), else 202. Preferences that are not known or "
    "cannot be read are ignored.",
    pattern=r"^[^\r\n]*$",
    example="wait=10",
)
_QUOTED_NUMBER = re.compile(r'"([0-9]{1,9})"')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*([0-9]{1,9})\s*(?=[;,]|$)", re.ASCII | re.IGNORECASE)


def preferred_wait_s(request: ApiRequest) -> int | None:
    """How long the caller would wait for the end, at most the limit; None without a preference."""
    text = ", ".join(request.headers.getall("prefer", []))
    # Other preferences may quote anything, also commas.
    plain = _QUOTED.sub("quoted", _QUOTED_NUMBER.sub(r"\1", text))
    found = _WAIT.search(plain)
    return None if found is None else min(int(found[1]), settings_of(request).limits.wait_s)
