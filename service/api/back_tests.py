"""`/v1/back-tests`: predicted against observed step time and loss, run by run."""

from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import empty_answer, json_answer
from service.api.bodies import read_body
from service.api.concurrency import etag_of, expected_version, not_modified
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.list_queries import Moment, PageQuery, in_utc
from service.api.pages import page_answer
from service.api.parameters import read_path, read_query, refuse_query
from service.api.transactions import actor_of, in_turn, read, write
from service.calibration.run_comparison import Verdict
from service.db.back_tests import BackTestFilter
from service.db.engine import Connection
from service.jobs import back_tests, drift
from service.jobs.back_test_documents import BackTestIn, BackTestOut, BackTestPage, DriftOut

TAG: Final = "Back-tests"
PATH: Final = "/v1/back-tests"
# Of the profile that the example of POST /v1/cluster-profiles makes
BACK_TEST_EXAMPLES: Final[dict[str, Any]] = {
    "a run of 20 000 steps": {
        "profile": "example-h100",
        "run": {
            "name": "llm-2025-11-29",
            "observed_at": "2025-11-29T06:00:00Z",
            "num_gpus": 256,
            "num_steps": 20000,
            "step_mean_ms": 418.3,
            "step_sd_ms": 6.5,
        },
    },
    "with its phases, at a tolerance of 2 %": {
        "profile": "example-h100@1",
        "run": {
            "name": "llm-2025-11-30",
            "observed_at": "2025-11-30T06:00:00Z",
            "num_steps": 20000,
            "step_mean_ms": 437.2,
            "step_p50_ms": 436.5,
            "step_p95_ms": 448.1,
            "load_ms": 30,
            "slowest_compute_ms": 318.9,
            "communication_ms": 88.3,
        },
        "tolerance_fraction": 0.02,
    },
}


class BackTestPath(Struct, frozen=True, kw_only=True):
    """The back-test in the path."""

    back_test_id: Annotated[UUID, Meta(description="Id of the back-test.")]


class BackTestsQuery(PageQuery, frozen=True, kw_only=True):
    """Which back-tests, and where in the list."""

    profile: (
        Annotated[
            str, Meta(max_length=64, description="Only of this profile, by slug; any revision.")
        ]
        | None
    ) = None
    verdict: Annotated[Verdict, Meta(description="Only with this verdict.")] | None = None
    run: Annotated[str, Meta(max_length=200, description="Only of this run, by name.")] | None = (
        None
    )
    calibration: Annotated[UUID, Meta(description="Only of this calibration.")] | None = None
    observed_after: Moment | None = None
    observed_before: Moment | None = None


class DriftQuery(Struct, frozen=True, kw_only=True):
    """Whose drift."""

    profile: Annotated[str, Meta(max_length=64, description="Slug of the profile.")]


@operation(
    "POST",
    PATH,
    Contract(
        operation_id="create_back_test",
        scope="calibrations:write",
        summary="Hold a run against what its profile predicts",
        description="The profile's revision is evaluated at the size of the run, and its mean step "
        "compared with the observed one: `agrees`, `parted` (off by more than the tolerance, and "
        "by more than chance explains in 99 of 100 such runs) or `cannot_tell`. Send `run`, or a "
        "`calibration` that is stored. Failures are in no step and left out. The record never "
        "changes; a run is tested once of each revision (409).",
        tag=TAG,
        body=BackTestIn,
        body_examples=BACK_TEST_EXAMPLES,
        idempotent=True,
        problems=(404, 409),
        answers={
            201: Answer(description="The back-test", body=BackTestOut, headers=("Location", "ETag"))
        },
    ),
)
async def create_back_test(request: ApiRequest) -> ApiResponse:
    """Compute outside of the transaction that stores: others need not wait for it."""
    refuse_query(request)
    document = await read_body(request, BackTestIn)
    actor = actor_of(request)
    asked = await read(request, lambda c: back_tests.ask(c, actor, document))
    tested = await in_turn(request, partial(back_tests.computed, asked))

    def create(connection: Connection) -> Created:
        made = back_tests.store(connection, actor, tested)
        headers = {"Location": f"{PATH}/{made.id}", "ETag": etag_of(made.version)}
        return Created(document=made, headers=headers)

    return await create_once(request, create)


@operation(
    "GET",
    PATH,
    Contract(
        operation_id="list_back_tests",
        scope="calibrations:read",
        summary="List back-tests, those observed last first",
        tag=TAG,
        query=BackTestsQuery,
        answers={
            200: Answer(description="A page of back-tests", body=BackTestPage, headers=("Link",))
        },
    ),
)
async def list_back_tests(request: ApiRequest) -> ApiResponse:
    """Answer with a page of back-tests."""
    query = read_query(request, BackTestsQuery)
    actor = actor_of(request)
    wanted = BackTestFilter(
        profile=query.profile,
        verdict=query.verdict,
        run_name=query.run,
        calibration=query.calibration,
        observed_after=in_utc("observed_after", query.observed_after),
        observed_before=in_utc("observed_before", query.observed_before),
    )
    return await page_answer(
        request,
        query,
        lambda c, size, token: back_tests.list_page(
            c, actor, wanted, page_size=size, page_token=token
        ),
    )


@operation(
    "GET",
    PATH + "/drift",
    Contract(
        operation_id="read_drift",
        scope="calibrations:read",
        summary="Tell whether the runs of a profile drift away from it",
        description="Its runs in the order of observation, those of earlier revisions with the "
        "same scenario too, with a cumulative sum in either direction. `warning` stands as long as "
        "a sum is over its threshold: two runs far off, or five that are a fifth further off than "
        "tolerated. Whoever uses the profile is told as well, in `warnings`.",
        tag=TAG,
        query=DriftQuery,
        problems=(404,),
        answers={200: Answer(description="The runs and the verdict", body=DriftOut)},
    ),
)
async def read_drift(request: ApiRequest) -> ApiResponse:
    """Answer with the drift of the newest revision."""
    query = read_query(request, DriftQuery)
    actor = actor_of(request)
    return json_answer(await read(request, lambda c: drift.read_drift(c, actor, query.profile)))


@operation(
    "GET",
    PATH + "/{back_test_id:str}",
    Contract(
        operation_id="get_back_test",
        scope="calibrations:read",
        summary="Read a back-test; it never changes",
        tag=TAG,
        path=BackTestPath,
        conditional_get=True,
        answers={200: Answer(description="The back-test", body=BackTestOut, headers=("ETag",))},
    ),
)
async def get_back_test(request: ApiRequest) -> ApiResponse:
    """Answer with the back-test."""
    refuse_query(request)
    test_id = read_path(request, BackTestPath).back_test_id
    actor = actor_of(request)
    found = await read(request, lambda c: back_tests.read(c, actor, test_id))
    etag = etag_of(found.version)
    return not_modified(request, etag) or json_answer(found, headers={"ETag": etag})


@operation(
    "DELETE",
    PATH + "/{back_test_id:str}",
    Contract(
        operation_id="delete_back_test",
        scope="calibrations:write",
        summary="Delete a back-test that was recorded by mistake",
        description="Else a mistyped step would be seen as a drift. The audit trail keeps that it "
        "was there, and its digest.",
        tag=TAG,
        path=BackTestPath,
        needs_if_match=True,
        answers={204: Answer(description="It is deleted")},
    ),
)
async def delete_back_test(request: ApiRequest) -> ApiResponse:
    """Delete the back-test."""
    refuse_query(request)
    test_id = read_path(request, BackTestPath).back_test_id
    version = expected_version(request)
    actor = actor_of(request)
    await write(request, lambda c: back_tests.delete(c, actor, test_id, expected_version=version))
    return empty_answer(204)


routes: list[HTTPRouteHandler] = [
    create_back_test,
    list_back_tests,
    read_drift,
    get_back_test,
    delete_back_test,
]
