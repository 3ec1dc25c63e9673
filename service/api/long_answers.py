"""Streamed answers end with the key that they were begun with: revoking acts at once there too."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

# Between two looks at the key, while parts are sent; a quiet event stream sends one every 15 s.
LOOK_EVERY_S: Final = 5.0


async def while_admitted(
    parts: Any, look: Callable[[], Awaitable[None]], *, every_s: float
) -> AsyncIterator[bytes]:
    """The parts, with a look at the key before one that comes `every_s` after the last look.

    What `look` raises breaks the answer off, so that nobody takes it for whole.
    """
    looked_at = time.monotonic()
    async with aclosing(parts):
        async for part in parts:
            if time.monotonic() - looked_at >= every_s:
                await look()
                looked_at = time.monotonic()
            yield part
