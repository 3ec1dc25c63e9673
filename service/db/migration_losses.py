"""What a migration down would take away, found by trying it in a transaction that is undone."""

from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    func,
    inspect,
    literal_column,
    not_,
    select,
    table,
)
from sqlalchemy.engine.interfaces import ReflectedColumn

from service.db.migrate import downgrade_on, locked

BOOKKEEPING = frozenset({"alembic_version"})


class Loss(NamedTuple):
    """Rows of a table, or values of a column that is not its default, that would be gone."""

    place: str
    number: int


class _Held(NamedTuple):
    number: int
    columns: dict[str, ReflectedColumn]


def losses(url: str, revision: str) -> list[Loss]:
    """What is lost by migrating down to the revision, by table; nothing has changed afterwards."""
    with locked(url) as connection:
        before = _held(connection)
        values = {name: _counted_values(connection, name, held) for name, held in before.items()}
        downgrade_on(connection, revision)
        after = _held(connection)
        connection.rollback()
    found: list[Loss] = []
    for name, held in before.items():
        left = after.get(name, _Held(0, {}))
        found.append(Loss(name, held.number - left.number))
        if name in after:
            gone = held.columns.keys() - left.columns.keys()
            found += [Loss(f"{name}.{column}", values[name][column]) for column in sorted(gone)]
    return [loss for loss in found if loss.number > 0]


def _held(connection: Connection) -> dict[str, _Held]:
    reflected = inspect(connection)
    return {
        name: _Held(
            connection.scalar(select(func.count()).select_from(table(name))) or 0,
            {column["name"]: column for column in reflected.get_columns(name)},
        )
        for name in sorted(set(reflected.get_table_names()) - BOOKKEEPING)
    }


def _counted_values(connection: Connection, name: str, held: _Held) -> dict[str, int]:
    """For each column, in how many rows it says something that its default would not."""
    expressions = []
    for column in held.columns.values():
        value: ColumnElement[Any] = literal_column(f'"{column["name"]}"')
        is_said: ColumnElement[bool] = value.is_not(None)
        if column["default"] is not None:
            is_said = and_(is_said, not_(value == literal_column(column["default"])))
        expressions.append(func.count().filter(is_said))
    counted = connection.execute(select(*expressions).select_from(table(name))).one()
    return dict(zip(held.columns, counted, strict=True))
