"""HTTP/1.1 on a connection whose header, body and time are bounded.

uvicorn bounds none of them: a connection that sends nothing, a header or a body that drips, and
a header without end are kept for ever (0.54, `protocols/http/httptools_impl.py`). Watching costs
a request that arrives whole nothing but a few assignments: timers are set only for what is still
incomplete when a piece of it has been read.
"""

import asyncio
import resource
from collections import deque
from typing import ClassVar, Final, Literal, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.refusals import refusal
from service.api.upload_paths import is_upload
from service.settings import Limits

Phase = Literal["idle", "header", "body", "refused"]

# For a refused client to read why, which closing at once would keep from it
LINGER_S: Final = 2.0
# How much more than the body itself its chunks may take, and what is read of one that was refused
FRAMING_FACTOR: Final = 2
FRAMING_BYTES: Final = 1024 * 1024
# An upload takes longer than other bodies: it may, as long as it is no slower (0.5 Mbit/s)
UPLOAD_BYTES_PER_S: Final = 64 * 1024
# Of a header line beside name and value: colon, space, line end
LINE_BYTES: Final = 4
# Files that are open beside the connections: the database, the pool, the log
OTHER_FILES: Final = 256

log = structlog.get_logger()


def protocol_within(limits: Limits) -> type["BoundedProtocol"]:
    """The protocol for `uvicorn.Config(http=…)`."""
    return cast(
        "type[BoundedProtocol]", type("LimitedProtocol", (BoundedProtocol,), {"limits": limits})
    )


def allow_open_files(connections: int) -> None:
    """Let the process hold so many connections; often 1 024 files are allowed, and more at will."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


class BoundedProtocol(HttpToolsProtocol):
    """One connection. Pauses that the service itself makes do not count towards any time."""

    limits: ClassVar[Limits]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        self._phase: Phase = "header"
        # Bytes of the header or body that is being read
        self._received = 0
        # Of an upload: how much had come when it was last looked at
        self._seen = 0
        self._is_upload = False
        self._is_begun = False
        self._num_begun = 0
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        if len(self.connections) > self.limits.connections:
            self._phase = "refused"
            detail = f"{self.limits.connections} connections are open already"
            transport.write(refusal("too-many-connections", detail))
            transport.close()
            return
        self._watch(self.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        """Read on, and watch over what is still incomplete."""
        before = self._phase
        if before == "refused":
            self._drop(data)
            return
        self._num_begun = 0
        super().data_received(data)
        if self._phase == "idle":
            self._deadline = None
            if before == "idle" and not self._num_begun:
                # Empty lines, which are allowed before a request
                self._begin("header")
        elif self._phase != "refused":
            self._count(data, before)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse("malformed-request", f"{msg.rstrip('.')}: it is no HTTP/1.1")

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._phase != "refused":
            self._num_begun += 1
            self._is_begun = True
            self._phase = "header"
            super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start the request, unless its header is too large."""
        if self._phase == "refused":
            return
        size = sum(len(name) + len(value) + LINE_BYTES for name, value in self.headers)
        if size + len(self.url) > self.limits.header_bytes:
            self._refuse_large_header(size + len(self.url))
            return
        self._phase = "body"
        super().on_headers_complete()
        self._is_upload = is_upload(self.scope["method"], self.scope["path"])
        # What follows a chunked body are trailers: nobody reads them, and nothing bounds them.
        self.headers = deque(maxlen=0)  # type: ignore[assignment] # only appended to

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._phase != "refused":
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        if self._phase != "refused":
            self._phase = "idle"
            self._is_begun = False
            super().on_message_complete()

    def _count(self, data: bytes, before: Phase) -> None:
        """Count a piece that did not complete the header or body that is being read."""
        if self._num_begun or self._phase != before:
            # Of a piece in which something else ended only the rest counts; its size is unknown.
            is_alone = self._phase == "header" and before != "body" and self._num_begun == 1
            self._begin(self._phase)
            self._received = len(data) if is_alone else 0
        else:
            self._received += len(data)
        if self._phase == "header" and self._received > self.limits.header_bytes:
            self._refuse_large_header(self._received)
        elif self._phase == "body" and self._received > self._largest_body():
            limit = self._body_bytes()
            self._refuse("too-large", f"more than {self._received} bytes; the limit is {limit}")

    def _largest_body(self) -> int:
        return FRAMING_FACTOR * self._body_bytes() + FRAMING_BYTES

    def _body_bytes(self) -> int:
        return self.limits.calibration_bytes if self._is_upload else self.limits.body_bytes

    def _is_fast_enough(self) -> bool:
        """Whether an upload has brought enough since it was last looked at."""
        fresh, self._seen = self._received - self._seen, self._received
        return self._is_upload and fresh >= UPLOAD_BYTES_PER_S * self.limits.body_s

    def _begin(self, phase: Phase) -> None:
        self._phase = phase
        self._received = self._seen = 0
        self._watch(self.limits.body_s if phase == "body" else self.limits.header_s)

    def _watch(self, within_s: float) -> None:
        """Look at this connection again when the time is over; a timer that is set is kept."""
        self._deadline = self.loop.time() + within_s
        if self._timer is not None:
            if self._timer.when() <= self._deadline:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None or self.transport.is_closing():
            return
        if self._phase == "refused":
            self.transport.close()
        elif self.flow.read_paused:
            # It is us who do not read, since the app has enough to do with what is there.
            self._watch(self.limits.body_s)
        elif self.loop.time() < self._deadline:
            self._watch(self._deadline - self.loop.time())
        elif self._phase == "body" and self._is_fast_enough():
            self._watch(self.limits.body_s)
        elif not self._is_begun:
            # Nothing was asked, so that nothing is answered.
            self.transport.close()
        else:
            limit = self.limits.body_s if self._phase == "body" else self.limits.header_s
            self._refuse("request-timeout", f"the {self._phase} did not arrive within {limit} s")

    def _refuse_large_header(self, size: int) -> None:
        limit = self.limits.header_bytes
        self._refuse("header-too-large", f"at least {size} bytes of header, the limit is {limit}")

    def _refuse(self, slug: str, detail: str) -> None:
        """Answer and close; an earlier request of the connection gets its answer first."""
        log.info("client_cut_off", reason=slug, client=self.client and self.client[0])
        self._phase = "refused"
        self._received = 0
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        if is_answering and not cycle.more_body:
            cycle.keep_alive = False
            self._deadline = None
        elif self.pipeline or (is_answering and cycle.response_started):
            # In the midst of another answer nothing else can be said.
            self.transport.close()
        else:
            self.transport.write(refusal(slug, detail))
            if is_answering:
                cycle.disconnected = True
                cycle.message_event.set()
            self._linger()

    def _linger(self) -> None:
        """Close when the client has, or soon: with bytes unread the system drops the answer."""
        self.flow.resume_reading()
        self.transport.write_eof()
        self._watch(LINGER_S)

    def _drop(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > FRAMING_BYTES:
            if self._deadline is None:
                # An earlier request is still answered.
                self.flow.pause_reading()
            else:
                self.transport.close()
