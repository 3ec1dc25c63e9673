"""The path parameter that all operations on one batch share."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct


class BatchPath(Struct, frozen=True, kw_only=True):
    """The batch in the path."""

    batch_id: Annotated[UUID, Meta(description="Id of the batch.")]
