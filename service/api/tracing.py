"""The id of a request: in its log lines, in its answer, in its problem document."""

import re
import uuid
from collections.abc import Mapping
from typing import Any

_GIVEN = re.compile(rb"[A-Za-z0-9._-]{8,128}")


def assign_trace_id(scope: Any) -> str:
    """Keep the caller's X-Request-Id if it is 8 to 128 harmless characters, else make one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    trace_id = given.decode() if _GIVEN.fullmatch(given) else uuid.uuid4().hex
    scope["trace_id"] = trace_id
    return trace_id


def trace_id_of(scope: Mapping[str, Any]) -> str:
    """The id that was assigned to the request."""
    return str(scope["trace_id"])
