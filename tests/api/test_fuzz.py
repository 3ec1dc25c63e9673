"""Thousands of wrong keys, page tokens, filters and bodies: never a 500, always a problem.

The cases are the same in every run (derandomized); what they found is tested by name elsewhere.
"""

import base64
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from litestar import Litestar
from litestar.testing import TestClient

from service.api.bodies import decode_json
from service.api.contract import PROBLEM
from service.api.openapi import contracts
from service.api.problems import Problem
from service.app import create_app
from service.db.conditions import Cursor
from service.db.engine import Database
from service.errors import InvalidError, MalformedError
from service.jobs.key_tokens import KeyToken, parse
from service.jobs.page_tokens import make_token, read_token
from service.model.results import COLUMNS
from service.settings import Limits, Settings
from tests.api.access_keys import key_of
from tests.api.conftest import BASE_URL
from tests.api.fuzz_bodies import NASTY_TEXTS, VALUES, encoded, spoilt
from tests.conftest import BACKENDS, TEMPLATE
from tests.jobs.batch_bodies import SIZES, item, run

# The engine, in another thread, may use the random numbers that hypothesis watches over.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")

Client = TestClient[Litestar]
LIMITS = Limits(points_per_batch=500, unfinished_batches=1_000_000)
JSON = {"content-type": "application/json"}
NOW = "2026-11-29T00:00:00Z"
AN_ID = "01939dc0-0000-7000-8000-000000000001"


def many(number: int) -> settings:
    return settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def sound(answer: httpx.Response) -> int:
    """The status; a refusal is a problem document, and nothing is a fault of the service."""
    assert answer.status_code < 500, (answer.request.url, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == PROBLEM
        problem = msgspec.json.decode(answer.content, type=Problem, strict=True)
        assert problem.status == answer.status_code
    return answer.status_code


@pytest.fixture(scope="module", params=BACKENDS)
def stored(
    request: pytest.FixtureRequest, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A database of each kind with the results of one batch."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("fuzz") / "trainard.db"
        shutil.copyfile(sqlite_template, path)
        url = f"sqlite:///{path}"
    else:
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.new_database(TEMPLATE))
    database = Database(url)
    run(database, item(axes=[SIZES]))
    yield database
    database.close()


@pytest.fixture(scope="module")
def client(stored: Database) -> Iterator[Client]:
    with TestClient(create_app(Settings(limits=LIMITS), stored), base_url=BASE_URL) as opened:
        yield opened


# --- keys


KEY = KeyToken(public_id="0123456789abcdef", secret="aB3_-" * 8 + "xyz").text


@many(150)
@given(st.binary(min_size=1, max_size=200), st.integers(0, len(KEY)))
def test_a_key_is_read_back_as_it_is_or_not_at_all(noise: bytes, place: int) -> None:
    assert parse(KEY) == KeyToken(public_id="0123456789abcdef", secret="aB3_-" * 8 + "xyz")
    for piece in pieces(noise.decode("latin-1"), 20):
        for text in (
            piece,
            "trn_" + piece,
            KEY[:place] + piece,
            KEY[:place] + piece + KEY[place:],
            (KEY[:place] + piece + KEY[place:])[: len(KEY)],
        ):
            token = parse(text)
            assert token is None or token.text == text


def pieces(text: str, number: int) -> list[str]:
    """The text cut into so many parts: many cases for the price of one."""
    length = max(1, len(text) // number)
    return [text[at : at + length] for at in range(0, len(text), length)]


HEADER_BYTES = st.binary(max_size=60).map(lambda found: found.translate(None, b"\0\r\n"))


@many(200)
@given(
    scheme=st.sampled_from([b"Bearer ", b"bearer\t", b"Basic ", b"Bearer", b"", b"Bearer Bearer "]),
    text=HEADER_BYTES | st.integers(0, len(KEY)).map(lambda cut: KEY[:cut].encode()),
)
def test_a_wrong_authorization_is_a_401(keyed: Client, scheme: bytes, text: bytes) -> None:
    header = (scheme + text).translate(None, b"\0\r\n")
    answer = keyed.get("/v1/meta", headers=[(b"authorization", header)])
    assert sound(answer) == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.fixture(scope="module")
def keyed(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service that is closed."""
    path = tmp_path_factory.mktemp("keyed") / "trainard.db"
    shutil.copyfile(sqlite_template, path)
    database = Database(f"sqlite:///{path}")
    key_of(database, "viewer")
    with TestClient(create_app(Settings(), database), base_url=BASE_URL) as opened:
        yield opened
    database.close()


# --- page tokens

QUERY = ["batches", None]


@many(300)
@given(VALUES, st.binary(max_size=60), st.integers(0, 40))
def test_a_foreign_page_token_is_refused(value: Any, noise: bytes, place: int) -> None:
    token = make_token(QUERY, value)
    text = noise.decode("latin-1")
    for foreign in (
        token,
        token[:place],
        token[:place] + text,
        token[:place] + text + token[place:],
        make_token(["others"], value),
        make_token(["others"], [1, AN_ID]),
        base64.urlsafe_b64encode(noise).decode(),
        text,
    ):
        with pytest.raises(MalformedError, match=r"^page_token "):
            read_token(foreign, QUERY, tuple[int, UUID])
    assert read_token(make_token(QUERY, [1, AN_ID]), QUERY, tuple[int, UUID]) == (1, UUID(AN_ID))


@many(60)
@given(
    path=st.sampled_from(["results", "scenario-batches", "cluster-profiles", "gpu-hour-rates"]),
    token=st.one_of(st.text(max_size=40), st.sampled_from(["W10", "e30", "bnVsbA", "WyIiLDFd"])),
)
def test_a_page_token_over_http(client: Client, path: str, token: str) -> None:
    answer = client.get(f"/v1/{path}", params={"page_token": token})
    assert sound(answer) in {200, 400} if not token else sound(answer) == 400


# --- filters

NAMES = st.sampled_from(
    [column.name for column in COLUMNS]
    + ["num_gpus", "slow_groups.0.speed_fraction", "variability.transient", "cost_of_loss"]
    + ["point", "item", "seed", "", "a.b.c", "slow_groups.-1.count", "slow_groups.99.count"]
)
OPERATORS = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge", "is_null", "", "like", "EQ"])
TEXTS = st.one_of(
    st.sampled_from(NASTY_TEXTS),
    st.sampled_from(["true", "false", "1", "0.5", "1e308", "closed_form", "-1e-320", "inf"]),
    st.text(max_size=12),
)
FILTERS = st.one_of(st.builds("{}:{}:{}".format, NAMES, OPERATORS, TEXTS), TEXTS)
ORDERS = st.lists(st.builds("{}{}".format, st.sampled_from(["", "-", "+", "--"]), NAMES)).map(
    ",".join
)


@many(200)
@given(
    path=st.sampled_from(["/v1/results", "/v1/exports?format=csv", "/v1/exports?format=jsonl"]),
    where=st.lists(FILTERS, max_size=4),
    order_by=ORDERS | TEXTS,
    more=st.dictionaries(
        st.sampled_from(["name", "profile", "currency", "pricing", "created_after", "batch", "x"]),
        TEXTS,
        max_size=2,
    ),
)
def test_filters_and_orders(
    client: Client, path: str, where: list[str], order_by: str, more: dict[str, str]
) -> None:
    path, _, given_format = path.partition("?format=")
    pairs = [*more.items(), *(("where", text) for text in where), ("order_by", order_by)]
    if given_format:
        pairs.append(("format", given_format))
    sound(client.get(f"{path}?{urlencode(pairs)}"))


@many(60)
@given(st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#")))
def test_any_query(client: Client, query: str) -> None:
    sound(client.get(httpx.URL(BASE_URL).copy_with(path="/v1/results", query=query.encode())))


# --- bodies


@many(350)
@given(VALUES, st.binary(max_size=40), st.integers(0, 60))
def test_any_bytes_are_read_or_refused(value: Any, noise: bytes, place: int) -> None:
    body = encoded(value)
    for sent in (
        body,
        noise,
        body[:place],
        body[:place] + noise,
        body[:place] + noise + body[place:],
        body[place:],
        b"[" + body + b"," + body + b"]",
        b'{"a":' + body + b',"a":' + body + b"}",
    ):
        # Any other error would be a 500.
        with suppress(MalformedError, InvalidError):
            read = decode_json(sent)
            assert decode_json(msgspec.json.encode(read)) == read


def examples(app: Litestar) -> list[tuple[str, str, Any]]:
    """Method, path and example body of every operation that reads JSON."""
    found = [
        (str(method), path, body)
        for path, method, contract in contracts(app)
        for body in contract.body_examples.values()
    ]
    assert len(found) > 10
    return found


def test_examples_with_spoilt_parts(client: Client) -> None:
    statuses: Counter[int] = Counter()

    @many(200)
    @given(st.data())
    def send(data: st.DataObject) -> None:
        method, path, example = data.draw(st.sampled_from(examples(client.app)))
        is_whole = data.draw(st.integers(0, 9)) == 9
        body = example if is_whole else data.draw(spoilt(example))
        values = {"slug": "example-h100", "revision": "1"}
        for name in {part[1:-1] for part in path.split("/") if part.startswith("{")}:
            path = path.replace(f"{{{name}}}", values.get(name, AN_ID))
        headers = {**JSON, "if-match": '"1"'}
        answer = client.request(method, path, content=encoded(body), headers=headers)
        statuses[sound(answer)] += 1

    send()
    # Some are taken, most are not, and for many reasons.
    assert {404, 422} <= set(statuses), statuses
    assert set(statuses) & {200, 201, 202}, statuses
    assert statuses[422] > 50


@many(80)
@given(st.one_of(st.text(max_size=80), st.lists(st.lists(TEXTS, max_size=7), max_size=4).map(str)))
def test_any_csv(client: Client, text: str) -> None:
    header = "gpu_type,cost_center,amount,currency,valid_from,valid_until,source\n"
    for body in (text, header + text):
        answer = client.post(
            "/v1/gpu-hour-rates/imports",
            content=body.encode("utf-8", "surrogatepass"),
            headers={"content-type": "text/csv"},
        )
        sound(answer)


NO_MOMENTS = ("2026-01-01T00:00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        (tuple[datetime, UUID], [[moment, AN_ID] for moment in NO_MOMENTS]),
        (int, [2**63, -(2**63), 10**30]),
        (
            Cursor,
            [
                {"values": [], "batch_id": AN_ID, "point": point, "created_at": moment}
                for moment, point in [*((moment, 0) for moment in NO_MOMENTS), (NOW, 2**63)]
            ],
        ),
    ],
)
def test_a_position_that_no_database_has_is_refused(kind: Any, positions: list[Any]) -> None:
    for position in positions:
        with pytest.raises(MalformedError, match="none of ours"):
            read_token(make_token(QUERY, position), QUERY, kind)
