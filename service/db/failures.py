"""The errors of a database that cannot be reached or understood, for rooms that speak no SQL."""

from alembic.util import CommandError
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

UNUSABLE_DATABASE: tuple[type[Exception], ...] = (
    ArgumentError,
    CommandError,
    DBAPIError,
    NoSuchModuleError,
    ValueError,
)
