"""Bounds that the times of all fields share."""

from typing import Annotated

from msgspec import Meta

# Far above any real step; keeps every product and sum of the kernel finite.
MAX_TIME_MS = 1e12
# So that what is divided by a step stays finite.
MIN_COMPUTE_MS = 1e-9

TimeMs = Annotated[float, Meta(ge=0, le=MAX_TIME_MS)]
