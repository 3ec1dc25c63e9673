"""The parts of the OpenAPI document that all operations share."""

from typing import Any, Final

from service.api.problem_types import PROBLEM_TYPES

Part = dict[str, Any]

INFO_DESCRIPTION: Final = """\
Says what a straggler costs in synchronous training: GPU-hours and money lost to waiting.

- Every time is in milliseconds (`_ms`), every share between 0 and 1 (`_fraction`).
- Bodies are read strictly: unknown fields, repeated keys and `"8"` for 8 are refused.
- Every error is an `application/problem+json` document; its `type` is explained at that address.
- Lists are pages: follow `next_page_token`, or the `Link` header.
- Batches run in the background: read them, wait (`Prefer: wait=10`), or follow their events.
- Changes need `If-Match` with the `ETag` that was read; creating POSTs take an `Idempotency-Key`.
"""

TAGS: Final[tuple[tuple[str, str], ...]] = (
    ("Evaluations", "One scenario, answered at once; nothing is stored."),
    ("Communication", "Dated links, and measured collectives as a scenario's communication."),
    ("Calibrations", "Observed timings as fitted scenario parts, with what they cannot tell."),
    ("Cluster profiles", "Named scenario defaults of real clusters, in immutable revisions."),
    ("Back-tests", "Runs against what their profile predicts, and whether they drift away."),
    ("GPU-hour rates", "Dated internal prices of a GPU-hour."),
    ("Scenario batches", "Grids of scenarios, computed in the background and kept."),
    ("Results", "Stored points of all batches: filtered, sorted, paged."),
    ("Comparisons", "Two batches point by point, and the loss of one scenario over time."),
    ("Exports", "Results and comparisons as files: streamed at once, or made, kept and resumed."),
    ("Schedules", "What is computed every night: when it comes, its ledger, runs of past days."),
    ("Webhooks", "Where reports are told to: signed messages, tried again for a day."),
    ("Deliveries", "What was sent, what waits, what was given up, and sending it again."),
    ("Reports", "What a batch loses, against the one before, as a document in any format."),
    ("Sessions", "Who looks at the pages: signing in with a key, and signing out."),
    ("API keys", "Who may call the service, and what each of them may do."),
    ("Audit trail", "Who changed what, who was refused, who was shown money."),
    ("Service", "The state, the limits and the description of the service."),
)

HEADERS: Final[dict[str, Part]] = {
    "Accept-Encoding": {
        "description": "Bodies are read uncompressed only; sent where one was compressed.",
        "schema": {"const": "identity"},
    },
    "Accept-Ranges": {
        "description": "Ranges of bytes can be asked for (RFC 9110).",
        "schema": {"const": "bytes"},
    },
    "Cache-Control": {
        "description": "How long the answer may be kept.",
        "schema": {"type": "string"},
    },
    "Content-Disposition": {
        "description": "The file name of a download.",
        "schema": {"type": "string"},
    },
    "Content-Range": {
        "description": "Which bytes of how many the answer holds.",
        "schema": {"type": "string"},
        "example": "bytes 0-999/123456",
    },
    "ETag": {
        "description": "The version of the object; send it back in If-Match or If-None-Match.",
        "schema": {"type": "string"},
        "example": '"1"',
    },
    "Idempotent-Replayed": {
        "description": "Present when this is the stored answer of an earlier request.",
        "schema": {"const": "true"},
    },
    "Link": {
        "description": 'The address of the next page, `rel="next"` (RFC 8288); absent on the last.',
        "schema": {"type": "string"},
    },
    "Location": {
        "description": "The address of the new object.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Preference-Applied": {
        "description": "The part of Prefer that was followed (RFC 7240).",
        "schema": {"type": "string"},
    },
    "Repr-Digest": {
        "description": "SHA-256 of the whole file (RFC 9530).",
        "schema": {"type": "string", "pattern": "^sha-256=:[A-Za-z0-9+/]{43}=:$"},
    },
    "RateLimit": {
        "description": "What is left of a limit, and in how many seconds it is whole again "
        "(draft-ietf-httpapi-ratelimit-headers-11). Sent to whom a key or token has named.",
        "schema": {"type": "string", "pattern": '^"requests";r=[0-9]+;t=[0-9]+$'},
        "example": '"requests";r=2999;t=60',
    },
    "RateLimit-Policy": {
        "description": "The limits that the request counts towards: how many, in how many seconds; "
        "requests of the key or person, computed points of the team.",
        "schema": {"type": "string"},
        "example": '"requests";q=3000;w=60, "points";q=100000000;qu="points";w=3600',
    },
    "Retry-After": {
        "description": "Seconds to wait before asking again.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "Set-Cookie": {
        "description": "The session of this browser, or that it has none any more.",
        "schema": {"type": "string"},
    },
    "WWW-Authenticate": {
        "description": "How to say who sends the request.",
        "schema": {"type": "string"},
        "example": 'Bearer realm="trainard"',
    },
    "X-Request-Id": {
        "description": "Names the request in the log; the caller's own where one was sent.",
        "schema": {"type": "string"},
    },
}

# Of every answer to a caller who is known.
LIMIT_HEADERS: Final = ("RateLimit", "RateLimit-Policy")

SECURITY_SCHEMES: Final[dict[str, Part]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key `trn_<id>_<secret>`, or a token of the configured OIDC issuer. "
        "A service on loopback for which no key was ever made needs none.",
    }
}

IF_MATCH: Final[Part] = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The ETag of the version that the change is based on.",
    "schema": {"type": "string", "pattern": '^"[0-9]{1,9}"$'},
    "example": '"1"',
}
IF_NONE_MATCH: Final[Part] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "An ETag that the caller has already: 304 when it is still the current one.",
    "schema": {"type": "string"},
}

_PROBLEM_DESCRIPTIONS: Final = {
    400: "The request cannot be read.",
    401: "Nobody is known by the API key or token of the request.",
    403: "A scope is missing, or the request comes from a foreign host or page.",
    404: "There is no such object.",
    406: "The service has no such format.",
    408: "The request came too slowly.",
    409: "The request clashes with what is stored.",
    412: "The object has changed since it was read.",
    413: "The body is over the limit.",
    415: "The body has another media type than the operation reads.",
    416: "The range begins behind the last byte.",
    422: "The body breaks a rule; `errors` names every value that is refused.",
    428: "If-Match is missing.",
    429: "Over the limit of this minute or hour.",
    431: "The address and the header fields are too large.",
    500: "The service has a defect.",
    503: "The service cannot do this now.",
}
_PROBLEM_ERRORS: Final[dict[int, list[Part]]] = {
    400: [
        {
            "parameter": "page_sise",
            "code": "unknown_parameter",
            "detail": "no such parameter; known are page_size, page_token",
        }
    ],
    422: [
        {
            "pointer": "/scenario/slow_groups/0/count",
            "code": "too_many_slow_gpus",
            "detail": "70 slow GPUs, but num_gpus is 64",
        }
    ],
}


_MORE_HEADERS: Final = {
    401: "WWW-Authenticate",
    415: "Accept-Encoding",
    429: "Retry-After",
    503: "Retry-After",
}


def problem_responses(media_type: str) -> dict[str, Part]:
    """The shared responses `Problem400` … that operations refer to."""
    return {
        f"Problem{status}": {
            "description": description,
            "headers": _problem_headers(status),
            "content": {
                media_type: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "example": _problem_example(status),
                }
            },
        }
        for status, description in _PROBLEM_DESCRIPTIONS.items()
    }


def _problem_headers(status: int) -> Part:
    more = _MORE_HEADERS.get(status)
    # Of a 401 nobody is known.
    limits = () if status == 401 else LIMIT_HEADERS
    names = sorted({"X-Request-Id", *limits, *([more] if more else [])})
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem_example(status: int) -> Part:
    kind = next(kind for kind in PROBLEM_TYPES.values() if kind.status == status)
    errors = _PROBLEM_ERRORS.get(status, [])
    return {
        "type": kind.uri,
        "title": kind.title,
        "status": status,
        "detail": errors[0]["detail"] if errors else kind.explanation,
        "instance": "/v1/evaluations",
        "errors": errors,
        "trace_id": "7d3f0c9be8a14d4f9d2b6f0c1a5e8b21",
    }
