"""How many files are streamed at once: each holds a database connection and a snapshot.

More are refused, so that callers who read slowly, or not at all, leave connections to the rest.
"""

from contextlib import ExitStack

from service.api.contract import ApiRequest
from service.api.transactions import settings_of
from service.errors import UnavailableError


class OpenStreams:
    """The streams of one process, counted by kind; used on the event loop and in threads."""

    def __init__(self) -> None:
        self.of_results: set[object] = set()
        self.of_comparisons: set[object] = set()


def take(request: ApiRequest, *, comparison: bool) -> ExitStack:
    """A place for a stream, given back when the stack is closed.

    Raises `UnavailableError` when all are taken.
    """
    streams: OpenStreams = request.app.state.open_streams
    limits = settings_of(request).limits
    # A comparison also holds the columns of both batches.
    taken = streams.of_comparisons if comparison else streams.of_results
    limit = limits.comparison_streams if comparison else limits.export_streams
    if len(taken) >= limit:
        raise UnavailableError(
            f"{len(taken)} exports are being streamed, the limit is {limit}; "
            "POST /v1/exports makes a file in the background",
            problem="too-many-streams",
        )
    place = object()
    taken.add(place)
    stack = ExitStack()
    stack.callback(taken.discard, place)
    return stack
