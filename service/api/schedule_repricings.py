"""`/v1/schedules/{schedule}/repricings`: what runs cost with the rates of now."""

from litestar.handlers import HTTPRouteHandler

from service.api.bodies import read_body
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.idempotency import Created, create_once
from service.api.parameters import read_path, refuse_query
from service.api.schedule_paths import SCHEDULE, SchedulePath
from service.api.transactions import actor_of
from service.db.engine import Connection
from service.jobs import schedule_repricings
from service.jobs.schedule_repricings import RepricingsIn, RepricingsOut


@operation(
    "POST",
    SCHEDULE + "/repricings",
    Contract(
        operation_id="reprice_schedule",
        scope="costs:read",
        reveals_costs=True,
        summary="Price the runs of a schedule again, with the rates of now",
        description="Each ended run in these days gets another pricing; the first stays. "
        "`/v1/loss-history` shows them by `pricing=newest`. At most "
        f"{schedule_repricings.MOST_RUNS} runs at once.",
        tag="Schedules",
        path=SchedulePath,
        body=RepricingsIn,
        body_examples={"December": {"from": "2026-12-01", "until": "2027-01-01"}},
        idempotent=True,
        problems=(404,),
        answers={
            201: Answer(description="The new pricings", body=RepricingsOut, headers=("Location",))
        },
    ),
)
async def reprice_schedule(request: ApiRequest) -> ApiResponse:
    """Make another pricing of each run."""
    refuse_query(request)
    key = read_path(request, SchedulePath).schedule
    document = await read_body(request, RepricingsIn)
    actor = actor_of(request)

    def create(connection: Connection) -> Created:
        made = schedule_repricings.reprice_runs(connection, actor, key, document)
        place = f"/v1/loss-history?schedule={made.schedule_id}&pricing=newest"
        return Created(document=made, headers={"Location": place})

    return await create_once(request, create)


routes: list[HTTPRouteHandler] = [reprice_schedule]
