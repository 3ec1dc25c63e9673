"""Names that contain a text, alike on both databases."""

from sqlalchemy import Column, ColumnElement, Connection, func


def contains(connection: Connection, column: Column[str], text: str) -> ColumnElement[bool]:
    """Whether the text stands in the column, in whatever case; no character of it is special."""
    if connection.dialect.name == "sqlite":
        return func.instr(func.unicode_lower(column), func.unicode_lower(text)) > 0
    return func.strpos(func.lower(column), func.lower(text)) > 0
