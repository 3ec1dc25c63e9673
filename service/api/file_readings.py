"""Uploaded files are read in a process of their own, in turns, and for nobody who has gone."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

import anyio

from service.api.contract import ApiRequest
from service.api.transactions import caller_of
from service.api.turns import ClientGone, Turns
from service.calibration.options import CalibrationOptions
from service.calibration.reading.limits import DEFAULT_LIMITS
from service.calibration.refusals import TimingsRefusedError
from service.errors import UnavailableError
from service.jobs import calibrations
from service.jobs.calibration_work import ReadingCanceledError

T_co = TypeVar("T_co", covariant=True)


class Reading(Protocol[T_co]):
    """Work on the files in a process of its own."""

    def __call__(self, *, is_canceled: Callable[[], bool]) -> T_co:
        """What it finds; raises `TimingsRefusedError` and `ReadingCanceledError`."""


# While it is read nothing else is read for its caller; two readings take two cores.
READINGS_AT_ONCE = 2


def reading_turns() -> Turns:
    """Files that came are worth a wait as long as those before them may take at the longest.

    How many there can be is bounded where they come in (uploads.UploadSlots).
    """
    return Turns(
        DEFAULT_LIMITS.elapsed_s,
        at_once=READINGS_AT_ONCE,
        before="files of other uploads have been read",
        instead=", or read them where they are: trainard calibrate",
    )


async def of_files(request: ApiRequest, reading: Reading[T_co]) -> T_co:
    """What a process of its own finds in the files, when it is the caller's turn.

    It is ended when the client goes, or the service stops.
    """
    state = request.app.state
    turns: Turns = state.reading_turns
    canceled, gone = threading.Event(), anyio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        canceled.set()
        gone.set()

    work = partial(reading, is_canceled=lambda: canceled.is_set() or state.batch_watch.is_stopping)
    watcher = asyncio.create_task(watch())
    try:
        return await turns.take(caller_of(request), work, gone=gone.wait)
    except TimingsRefusedError as error:
        raise calibrations.refusal(error) from error
    except ReadingCanceledError as error:
        if canceled.is_set():
            raise ClientGone from error
        raise UnavailableError("the service stops; send the files again soon") from error
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


def options_of(query: CalibrationOptions) -> CalibrationOptions:
    """The options alone, without what else a query asks."""
    names = CalibrationOptions.__struct_fields__
    return CalibrationOptions(**{name: getattr(query, name) for name in names})
