"""The kinds of problem that the service answers with: one stable URI, status and title each."""

from typing import Final

import msgspec


class ProblemType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of problem; `explanation` says what to do about it."""

    slug: str
    status: int
    title: str
    explanation: str

    @property
    def uri(self) -> str:
        """The `type` of the problem document (RFC 9457)."""
        return f"/problems/{self.slug}"


def _type(slug: str, status: int, title: str, explanation: str) -> tuple[str, ProblemType]:
    return slug, ProblemType(slug=slug, status=status, title=title, explanation=explanation)


PROBLEM_TYPES: Final[dict[str, ProblemType]] = dict(
    (
        _type(
            "malformed-request",
            400,
            "The request cannot be read",
            "The body is no JSON, a key stands twice in one object, or a query parameter or header "
            "is unknown, repeated or malformed. errors names each parameter.",
        ),
        _type(
            "unauthenticated",
            401,
            "Nobody is known by this request",
            "Send Authorization: Bearer with an API key (trn_<id>_<secret>, from an administrator "
            "of the team) or with a token of the configured issuer. detail says whether the key "
            "or token is missing, unknown, expired or revoked.",
        ),
        _type(
            "missing-scope",
            403,
            "The key or person may not do this",
            "detail names the scope that is missing. An administrator of the team can make a key "
            "of a role that has it.",
        ),
        _type(
            "no-role",
            403,
            "The token gives no role and team here",
            "detail says which claim of the bearer token is missing or is mapped to nothing "
            "(TRAINARD_OIDC_ROLES, TRAINARD_OIDC_TEAM).",
        ),
        _type(
            "forwarded-while-open",
            403,
            "The request came through a proxy while the service is open",
            "Without any key everybody who reaches the service may do all, which is meant for one "
            "person on one machine. Make a key (trainard key create --role admin) before a proxy "
            "is put in front.",
        ),
        _type(
            "foreign-host",
            403,
            "The request names a foreign host",
            "Only requests whose Host header is one of the allowed hosts are answered "
            "(TRAINARD_ALLOWED_HOSTS), so that a web page cannot reach the service through a name "
            "of its own. Behind a proxy, allow the name that it passes on.",
        ),
        _type(
            "foreign-origin",
            403,
            "The request comes from a foreign page",
            "A request that changes something was sent by a browser from a page of another origin. "
            "Only the service's own pages may do that.",
        ),
        _type(
            "foreign-page",
            403,
            "Another page uses the session of this browser",
            "The cookie of a session speaks for the service's own pages only: a change needs "
            "Sec-Fetch-Site: same-origin, or an Origin that is the host of the request. Programs "
            "send Authorization: Bearer with an API key instead.",
        ),
        _type(
            "not-found",
            404,
            "There is no such object",
            "The object does not exist, or another team owns it.",
        ),
        _type(
            "unknown-route",
            404,
            "There is no such address",
            "The path is none of the API's. /openapi.json lists all of them.",
        ),
        _type(
            "unknown-profile",
            404,
            "There is no such cluster profile",
            "No profile of the team has this slug. GET /v1/cluster-profiles lists them.",
        ),
        _type(
            "unknown-revision",
            404,
            "There is no such profile revision",
            "The profile exists, but has no revision of this number.",
        ),
        _type(
            "method-not-allowed",
            405,
            "The address does not know this method",
            "The Allow header lists the methods that it knows.",
        ),
        _type(
            "not-acceptable",
            406,
            "The service has no such format",
            "The formats that the operation can answer with are listed in /openapi.json.",
        ),
        _type(
            "conflict",
            409,
            "The request clashes with what is stored",
            "detail and errors name what it clashes with. Nothing was changed.",
        ),
        _type(
            "too-many-schedules",
            409,
            "The team has as many schedules as it may",
            "Delete one, or have TRAINARD_MAX_SCHEDULES raised. GET /v1/meta shows the limits.",
        ),
        _type(
            "no-key-needed",
            409,
            "Nobody has to sign in here",
            "No key was ever made: everybody who reaches the service may do all. Go on to the "
            "pages, or make a key first: trainard key create --role admin.",
        ),
        _type(
            "first-key-by-cli",
            409,
            "The first API key is made by command",
            "While no key exists everybody may do all, so the first key is made on the machine of "
            "the service: trainard key create --role admin. It closes the service to all without "
            "a key; further ones can be made here.",
        ),
        _type(
            "accepted-calibration",
            409,
            "The calibration stands behind a profile",
            "A revision of a cluster profile was made of it and names it for ever, so that it "
            "cannot be deleted.",
        ),
        _type(
            "batch-not-finished",
            409,
            "The batch has not ended yet",
            "Results can be read when the batch has ended; Retry-After says when to look again.",
        ),
        _type(
            "nothing-to-retry",
            409,
            "Every point of the batch is done",
            "A retry computes what was canceled, expired or could not be computed. Points that "
            "break a rule break it again: change their inputs and post a new batch.",
        ),
        _type(
            "needs-postgresql",
            409,
            "The service runs on SQLite, this needs PostgreSQL",
            "Batches are published as rows of a PostgreSQL table. With the embedded database the "
            "same columns come as an export.",
        ),
        _type(
            "export-not-finished",
            409,
            "The exported file is still being made",
            "It can be read when its state is succeeded; Retry-After says when to look again.",
        ),
        _type(
            "own-rate",
            409,
            "A rate is approved by another person than the one who recorded it",
            "Have somebody else of the team approve it, with a key or token of their own that has "
            "the scope costs:approve. While no key exists nobody is known, and nothing can be "
            "approved.",
        ),
        _type(
            "export-failed",
            409,
            "The exported file could not be made",
            "detail says why. Change what was asked for and have another one made.",
        ),
        _type(
            "report-failed",
            409,
            "The report could not be made",
            "detail says why. Have another one made.",
        ),
        _type(
            "report-not-finished",
            409,
            "The report is not made yet",
            "Ask for the report until its state is succeeded, then read its content.",
        ),
        _type(
            "precondition-failed",
            412,
            "The object has changed since it was read",
            "If-Match names an older version. Read the object again and decide again.",
        ),
        _type(
            "too-large",
            413,
            "The body is too large",
            "The limits are shown by GET /v1/meta.",
        ),
        _type(
            "unsupported-media-type",
            415,
            "The body has another media type than the operation reads",
            "Send the Content-Type that the operation declares in /openapi.json, in UTF-8, and "
            "no Content-Encoding: bodies are read uncompressed only.",
        ),
        _type(
            "range-not-satisfiable",
            416,
            "There is no byte in the range",
            "The file ends before the range begins; Content-Range says how many bytes it has.",
        ),
        _type(
            "too-many-rows",
            422,
            "More rows match than can be sorted",
            "Leave order_by out, or narrow the filters; detail names the limit.",
        ),
        _type(
            "invalid-input",
            422,
            "The request breaks a rule",
            "The body is readable, but some of its values are refused. errors names each by its "
            "JSON pointer (RFC 6901) into the body, with the value and the rule.",
        ),
        _type(
            "invalid-scenario",
            422,
            "The scenario breaks a rule",
            "errors names each refused value by its JSON pointer (RFC 6901) into the body, with "
            "the value and the rule.",
        ),
        _type(
            "refused-timings",
            422,
            "Nothing sound can be made of the timings",
            "errors names every reason: pointer is the file and its line, and detail the value "
            "and the rule. A calibration is never fitted to timings that it cannot read for sure.",
        ),
        _type(
            "invalid-schedule",
            422,
            "The schedule breaks a rule",
            "errors names each refused value by its JSON pointer into the body, with the value and "
            "the rule; what is below /batch is what a submission of the batch would say.",
        ),
        _type(
            "malformed-profile-reference",
            422,
            "The profile reference cannot be read",
            "A profile is named slug (its newest revision) or slug@revision.",
        ),
        _type(
            "archived-profile",
            422,
            "The cluster profile is archived",
            "An archived profile stays readable, but takes no new work.",
        ),
        _type(
            "duplicate-key",
            422,
            "Two points of one batch are the same to a comparison",
            "Points are joined on their name, their profile and the values of the axes of both "
            "batches. Give the items different names.",
        ),
        _type(
            "idempotency-key-reused",
            422,
            "The Idempotency-Key was used for another request",
            "A key belongs to one method, path and body. Take a new key for another request.",
        ),
        _type(
            "precondition-required",
            428,
            "The change needs If-Match",
            "Send If-Match with the ETag of the version that the change is based on.",
        ),
        _type(
            "request-timeout",
            408,
            "The request did not arrive in time",
            "Header and body each have a time, shown by GET /v1/meta; the connection is closed.",
        ),
        _type(
            "header-too-large",
            431,
            "The address and header of the request are too large",
            "Their limit is shown by GET /v1/meta; the connection is closed.",
        ),
        _type(
            "too-many-connections",
            503,
            "Too many connections are open",
            "Close those that are not needed, or ask again later.",
        ),
        _type(
            "too-many-requests",
            429,
            "Too many requests in this minute",
            "Each key has a number of requests a minute, shown by RateLimit-Policy; Retry-After "
            "says when the next ones are answered.",
        ),
        _type(
            "quota-exceeded",
            429,
            "The team has computed its points of this hour",
            "Each team has a number of points an hour, shown by GET /v1/meta; Retry-After says "
            "when the next hour begins.",
        ),
        _type(
            "client-error",
            400,
            "The request is refused",
            "detail says why.",
        ),
        _type(
            "internal-error",
            500,
            "The service has a defect",
            "It is logged under the trace_id of this answer; please report both. Nothing of the "
            "request was kept.",
        ),
        _type(
            "unavailable",
            503,
            "The service cannot do this now",
            "The same request may work later; Retry-After says when to try again.",
        ),
        _type(
            "queue-full",
            503,
            "Too many batches wait already",
            "Wait until some of them have ended, or cancel some.",
        ),
        _type(
            "too-many-streams",
            503,
            "Too many streams are open",
            "Close some, or come back later. Instead of events, read the batch itself now and "
            "then; instead of a streamed export, POST /v1/exports. GET /v1/meta shows the limits.",
        ),
        _type(
            "not-ready",
            503,
            "The service is not ready",
            "The database cannot be reached, its disk is full, or its tables are of another "
            "version than the program; trainard migrate brings them up to date.",
        ),
    )
)
