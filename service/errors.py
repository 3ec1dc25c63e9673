"""What can go wrong, in the product's words; `api/problems.py` gives each its HTTP status."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Fault(Protocol):
    """One fault of an input: where it is (RFC 6901 pointer), a stable code, and the sentence."""

    @property
    def pointer(self) -> str:
        """RFC 6901 pointer into the document that was sent."""

    @property
    def code(self) -> str:
        """Stable machine-readable name of the rule."""

    @property
    def detail(self) -> str:
        """The value and the rule, for a person."""


class FieldFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault found outside the model room."""

    pointer: str
    code: str
    detail: str


class TrainardError(Exception):
    """Base of all errors that a caller can do something about."""

    problem = "error"

    def __init__(
        self, detail: str, *, problem: str | None = None, errors: Sequence[Fault] = ()
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        if problem is not None:
            self.problem = problem


class MalformedError(TrainardError):
    """The request cannot be read: broken JSON, an unknown or malformed parameter."""

    problem = "malformed-request"


class NotFoundError(TrainardError):
    """No such object for this team."""

    problem = "not-found"


class ConflictError(TrainardError):
    """The request clashes with what is stored."""

    problem = "conflict"


class PreconditionFailedError(TrainardError):
    """The object has changed since the caller read it."""

    problem = "precondition-failed"


class PreconditionRequiredError(TrainardError):
    """A change was sent without the version it is based on."""

    problem = "precondition-required"


class TooLargeError(TrainardError):
    """The body is over the limit."""

    problem = "too-large"


class UnsupportedMediaError(TrainardError):
    """The body is of another media type than the operation reads."""

    problem = "unsupported-media-type"


class UnsupportedEncodingError(UnsupportedMediaError):
    """The body is compressed, which is never read: its true size is not known before."""


class InvalidError(TrainardError):
    """Readable, but it breaks a rule."""

    problem = "invalid-input"


class UnavailableError(TrainardError):
    """The service cannot take this now; the same request may work later."""

    problem = "unavailable"


class UnauthenticatedError(TrainardError):
    """Nobody is known by what the request carries."""

    problem = "unauthenticated"


class ForbiddenError(TrainardError):
    """Known, but without the scope that this needs."""

    problem = "missing-scope"


class OverLimitError(TrainardError):
    """More than the limit in this window of time; `retry_after_s` seconds until the next."""

    problem = "too-many-requests"

    def __init__(self, detail: str, *, retry_after_s: int, problem: str | None = None) -> None:
        super().__init__(detail, problem=problem)
        self.retry_after_s = retry_after_s
