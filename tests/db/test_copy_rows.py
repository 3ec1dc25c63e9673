"""Rows of binary COPY against what PostgreSQL itself writes for the same values."""

import struct

import numpy as np
import pytest

from service.db.copy_rows import HEADER, TRAILER, encode_rows, label_field, number_field
from service.db.engine import Database

pytestmark = pytest.mark.postgres


@pytest.fixture
def postgres_database(postgres_url: str) -> Database:
    return Database(postgres_url)


def test_rows_are_byte_for_byte_those_of_postgresql(postgres_database: Database) -> None:
    floats = np.array([1.5, -0.0, np.nan, 1e-310])
    whole = np.array([0, -(2**63), 7, 2**63 - 1])
    fields = [
        number_field(floats, np.isnan(floats)),
        number_field(whole),
        number_field(np.array([True, False, True, False])),
        label_field(np.array([1, 0, -1, 2]), ["käse".encode(), b"", None]),
    ]
    ours = HEADER + encode_rows(fields[:]) + TRAILER
    query = (
        "COPY (SELECT * FROM (VALUES"
        " (1.5::float8, 0::bigint, true, ''),"
        " ('-0'::float8, -9223372036854775808, false, 'käse'),"
        " (NULL, 7, true, NULL),"
        " (1e-310, 9223372036854775807, false, NULL)"
        ") AS made (a, b, c, d)) TO STDOUT (FORMAT BINARY)"
    )
    with postgres_database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        with driver.cursor() as cursor, cursor.copy(query) as copy:
            theirs = b"".join(map(bytes, copy))
    postgres_database.close()
    assert ours == theirs


def test_one_row_by_hand() -> None:
    fields = [number_field(np.array([258])), label_field(np.array([0]), [b"ab"])]
    assert encode_rows(fields) == struct.pack(">hiqi", 2, 8, 258, 2) + b"ab"


def test_no_rows_are_no_bytes() -> None:
    none = np.empty(0, dtype=np.int64)
    assert encode_rows([number_field(none), label_field(none, [b"x"])]) == b""
