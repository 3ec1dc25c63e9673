"""The schedule in a path: by its slug or its id."""

from typing import Annotated

from msgspec import Meta, Struct

SCHEDULES = "/v1/schedules"
SCHEDULE = SCHEDULES + "/{schedule:str}"


class SchedulePath(Struct, frozen=True, kw_only=True):
    """The schedule in the path."""

    schedule: Annotated[
        str, Meta(max_length=64, description="Slug or id of the schedule.", examples=["nightly"])
    ]
