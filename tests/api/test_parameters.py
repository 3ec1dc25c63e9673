from datetime import date
from typing import Annotated, Literal
from uuid import UUID

import pytest
from litestar.testing import RequestFactory
from msgspec import Meta, Struct

from service.api.contract import ApiRequest
from service.api.parameters import ParameterFault, read_path, read_query, refuse_query
from service.errors import MalformedError, NotFoundError
from service.settings import Limits, Settings


class Query(Struct, frozen=True, kw_only=True):
    page_size: Annotated[int, Meta(ge=1)] = 50
    gpus_min: Annotated[int, Meta(ge=1)] | None = None
    share: float | None = None
    archived: bool = False
    on: date | None = None
    state: Literal["queued", "running"] | None = None
    where: tuple[Annotated[str, Meta(max_length=5)], ...] = ()
    sizes: tuple[int, ...] = ()


class Required(Struct, frozen=True, kw_only=True):
    baseline: UUID


class Path(Struct, frozen=True, kw_only=True):
    id: UUID


def request(query: str = "") -> ApiRequest:
    made: ApiRequest = RequestFactory().get("/v1/things")
    made.scope["query_string"] = query.encode()
    made.app.state.settings = Settings(limits=Limits(query_bytes=200, filters=3))
    return made


def test_an_empty_query_gives_the_defaults() -> None:
    assert read_query(request(), Query) == Query()


def test_each_parameter_is_read_as_its_type() -> None:
    found = read_query(
        request(
            "page_size=7&gpus_min=8&share=-1.5e-2&archived=true&on=2026-12-01&state=queued"
            "&where=a%3Ab&where=c&sizes=1&sizes=2"
        ),
        Query,
    )
    assert found == Query(
        page_size=7,
        gpus_min=8,
        share=-0.015,
        archived=True,
        on=date(2026, 12, 1),
        state="queued",
        where=("a:b", "c"),
        sizes=(1, 2),
    )


@pytest.mark.parametrize(
    ("query", "name", "code"),
    [
        ("page_sise=1", "page_sise", "unknown_parameter"),
        ("page_size=1&page_size=2", "page_size", "repeated_parameter"),
        ("page_size=1&page_size=1", "page_size", "repeated_parameter"),
        ("page_size=", "page_size", "wrong_type"),
        ("page_size=x", "page_size", "wrong_type"),
        ("page_size=8.0", "page_size", "wrong_type"),
        ("page_size=+8", "page_size", "wrong_type"),
        ("page_size=%D9%A8", "page_size", "wrong_type"),
        ("page_size=1_0", "page_size", "wrong_type"),
        ("page_size=99999999999999999999", "page_size", "wrong_type"),
        ("page_size=0", "page_size", "out_of_range"),
        ("page_size=null", "page_size", "wrong_type"),
        ("gpus_min=null", "gpus_min", "wrong_type"),
        ("gpus_min=0", "gpus_min", "out_of_range"),
        ("share=nan", "share", "wrong_type"),
        ("share=inf", "share", "wrong_type"),
        ("share=1e999", "share", "wrong_type"),
        ("archived=1", "archived", "wrong_type"),
        ("archived=TRUE", "archived", "wrong_type"),
        ("on=2026-13-01", "on", "wrong_format"),
        ("state=lost", "state", "not_one_of"),
        ("where=abcdef", "where", "wrong_length"),
        ("sizes=1&sizes=x", "sizes", "wrong_type"),
        ("where=%00", "where", "null_character"),
    ],
)
def test_a_bad_parameter_is_named(query: str, name: str, code: str) -> None:
    with pytest.raises(MalformedError) as caught:
        read_query(request(query), Query)
    (fault,) = caught.value.errors
    assert isinstance(fault, ParameterFault)
    assert (fault.parameter, fault.code) == (name, code)
    assert name in caught.value.detail


def test_all_bad_parameters_are_named() -> None:
    with pytest.raises(MalformedError) as caught:
        read_query(request("page_size=0&gpus_min=x&other=1"), Query)
    assert {fault.code for fault in caught.value.errors} == {
        *("out_of_range", "wrong_type", "unknown_parameter")
    }


def test_a_missing_parameter_is_named() -> None:
    with pytest.raises(MalformedError, match="baseline: it is required"):
        read_query(request(), Required)


@pytest.mark.parametrize("query", ["a=%ff", "&".join("a=1" for _ in range(300))])
def test_a_query_that_cannot_be_read_is_refused(query: str) -> None:
    with pytest.raises(MalformedError):
        read_query(request(query), Query)


def test_an_operation_without_parameters_takes_none() -> None:
    refuse_query(request())
    with pytest.raises(MalformedError, match="known are none"):
        refuse_query(request("x=1"))


def test_a_malformed_path_parameter_is_not_found() -> None:
    made = request()
    made.scope["path_params"] = {"id": "no-uuid"}
    with pytest.raises(NotFoundError, match="/v1/things"):
        read_path(made, Path)


def test_a_long_query_is_refused_with_both_numbers() -> None:
    with pytest.raises(MalformedError, match="201 bytes, but the limit is 200"):
        read_query(request("where=" + "a" * 195), Query)
    assert read_query(request("where=a" + "&" * 193), Query) == Query(where=("a",))


def test_many_filters_are_refused_with_both_numbers() -> None:
    assert read_query(request("where=a&where=b&where=c"), Query).where == ("a", "b", "c")
    message = 'parameter "where": it stands 4 times, but the limit is 3'
    with pytest.raises(MalformedError, match=message) as refused:
        read_query(request("where=a&where=b&where=c&where=d"), Query)
    (fault,) = refused.value.errors
    assert isinstance(fault, ParameterFault)
    assert (fault.parameter, fault.code) == ("where", "too_many")
