"""Every operation for every role, on the objects of the own and of another team.

The table is written out here, apart from the scopes that the service goes by, so that a scope
given to the wrong operation or role is found.
"""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
import structlog
from litestar import Litestar
from litestar.testing import TestClient

from service.api.openapi import document
from service.app import create_app
from service.db.engine import Database
from service.jobs.scopes import ROLES, Role
from service.settings import Limits, Settings
from tests.api.access_keys import key_of, new_team
from tests.api.access_requests import REQUESTS
from tests.api.access_world import World
from tests.api.conftest import BASE_URL

PUBLIC = "public"
ALL = frozenset(ROLES)
PLANNERS = frozenset(("planner", "admin"))
SUBMITTERS = frozenset(("planner", "finance", "admin"))
MONEY = frozenset(("finance", "admin"))
ADMINS = frozenset(("admin",))

ALLOWED: dict[str, frozenset[str] | str] = {
    "get_health": PUBLIC,
    "get_readiness": PUBLIC,
    "get_openapi": PUBLIC,
    "list_problem_types": PUBLIC,
    "read_session": PUBLIC,
    "sign_in": PUBLIC,
    "sign_out": PUBLIC,
    "explain_problem_type": PUBLIC,
    "get_metrics": ADMINS,
    "list_workers": ALL,
    "get_meta": ALL,
    "evaluate_scenario": ALL,
    "evaluate_curve": ALL,
    "solve_scenario": ALL,
    "draw_timeline": ALL,
    "evaluate_remedies": ALL,
    "search_pipelines": ALL,
    "list_link_presets": ALL,
    "read_collective_measurement": ALL,
    "audit_overlap": ALL,
    "audit_overlap_of_files": PLANNERS,
    "start_coarsely": ALL,
    "list_profiles": ALL,
    "get_profile": ALL,
    "list_profile_revisions": ALL,
    "get_profile_revision": ALL,
    "create_profile": PLANNERS,
    "revise_profile": PLANNERS,
    "archive_profile": PLANNERS,
    "restore_profile": PLANNERS,
    "create_calibration": PLANNERS,
    "list_calibrations": ALL,
    "get_calibration": ALL,
    "delete_calibration": PLANNERS,
    "accept_calibration": PLANNERS,
    "create_back_test": PLANNERS,
    "list_back_tests": ALL,
    "read_drift": ALL,
    "get_back_test": ALL,
    "delete_back_test": PLANNERS,
    "list_rates": MONEY,
    "get_rate": MONEY,
    "resolve_rate": MONEY,
    "create_rate": MONEY,
    "correct_rate": MONEY,
    "approve_rate": MONEY,
    "import_rates": MONEY,
    "list_batches": ALL,
    "get_batch": ALL,
    "list_batch_errors": ALL,
    "watch_batch": ALL,
    "get_publication": ALL,
    "list_batch_results": ALL,
    "submit_batch": SUBMITTERS,
    "cancel_batch": SUBMITTERS,
    "retry_batch": SUBMITTERS,
    "publish_batch": SUBMITTERS,
    "unpublish_batch": SUBMITTERS,
    "delete_batch": SUBMITTERS,
    "reprice_batch": MONEY,
    "list_pricings": MONEY,
    "list_results": ALL,
    "get_result": ALL,
    "compare_batches": ALL,
    "read_loss_history": ALL,
    "export_results": ALL,
    "export_comparison": ALL,
    "create_export": ALL,
    "get_export": ALL,
    # The world's file was made by an administrator, and so holds money.
    "download_export": MONEY,
    "get_export_sidecar": MONEY,
    "delete_export": ALL,
    "create_schedule": SUBMITTERS,
    "list_schedules": ALL,
    "get_schedule": ALL,
    "list_occurrences": ALL,
    "preview_occurrences": ALL,
    "change_schedule": SUBMITTERS,
    "delete_schedule": SUBMITTERS,
    "pause_schedule": SUBMITTERS,
    "resume_schedule": SUBMITTERS,
    "reprice_schedule": MONEY,
    "list_runs": ALL,
    "get_run": ALL,
    "create_run": SUBMITTERS,
    "cancel_run": SUBMITTERS,
    "create_backfill": SUBMITTERS,
    "list_backfills": ALL,
    "get_backfill": ALL,
    "cancel_backfill": SUBMITTERS,
    "create_report": ALL,
    "list_reports": ALL,
    "get_report": ALL,
    "read_report": ALL,
    "delete_report": ALL,
    "read_retention": ADMINS,
    "list_webhook_endpoints": ALL,
    "get_webhook_endpoint": ALL,
    "list_endpoint_deliveries": ALL,
    "create_webhook_endpoint": SUBMITTERS,
    "change_webhook_endpoint": SUBMITTERS,
    "delete_webhook_endpoint": SUBMITTERS,
    "rotate_webhook_secret": SUBMITTERS,
    "test_webhook_endpoint": SUBMITTERS,
    "list_deliveries": ALL,
    "get_delivery": ALL,
    "replay_delivery": SUBMITTERS,
    "cancel_delivery": SUBMITTERS,
    "list_audit_events": ADMINS,
    "list_api_keys": ADMINS,
    "create_api_key": ADMINS,
    "get_api_key": ADMINS,
    "change_api_key": ADMINS,
    "revoke_api_key": ADMINS,
}
# A batch that was never published has no publication to read or take back.
NOT_THERE = {"get_publication", "unpublish_batch"}
UNKNOWN_ID = "01a22869-6f4e-72c6-8158-fe19e726e3f8"
NOBODYS_KEY = f"trn_{'0' * 16}_{'A' * 43}"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    client: Any
    ours: World
    theirs: World
    keys: dict[Role, dict[str, str]]

    def send(self, call: Any, headers: dict[str, str]) -> httpx.Response:
        method, path, arguments = call
        # Who has signed in with an earlier call is not who sends this one.
        self.client.cookies.clear()
        sent = {**arguments.get("headers", {}), **headers}
        answer: httpx.Response = self.client.request(method, path, **{**arguments, "headers": sent})
        return answer


@pytest.fixture(scope="module")
def service(sqlite_template: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    path = tmp_path_factory.mktemp("access") / "trainard.db"
    path.write_bytes(sqlite_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    other = new_team(database, "foreign")
    keys = {role: key_of(database, role) for role in ROLES}
    app: Litestar = create_app(Settings(limits=Limits(requests_per_minute=0)), database)
    with TestClient(app, base_url=BASE_URL) as client:
        yield Service(
            client=client,
            ours=World(client, keys["admin"], "ours"),
            theirs=World(client, key_of(database, "admin", other), "zebra"),
            keys=keys,
        )
    database.close()
    structlog.reset_defaults()


def test_no_operation_is_missing_from_the_matrix(service: Service) -> None:
    described = document(service.client.app)
    operations = {
        operation["operationId"]
        for path in described["paths"].values()
        for operation in path.values()
    }
    assert operations == set(ALLOWED) == set(REQUESTS)


@pytest.mark.parametrize("operation", ALLOWED)
def test_only_the_roles_of_the_table_are_admitted(service: Service, operation: str) -> None:
    allowed = ALLOWED[operation]
    for role in ROLES:
        answer = service.send(REQUESTS[operation].own(service.ours), service.keys[role])
        if allowed == PUBLIC or role in allowed:
            refused = {401, 403} if operation in NOT_THERE else {401, 403, 404}
            assert answer.status_code not in refused, (role, answer.text)
            assert answer.status_code < 500, answer.text
        else:
            assert answer.status_code == 403, (role, answer.text)
            problem = answer.json()
            assert problem["type"] == "/problems/missing-scope"
            assert "scope" in problem["detail"]


@pytest.mark.parametrize("operation", ALLOWED)
def test_nobody_gets_in_without_a_key(
    service: Service, operation: str, problem_of: Callable[..., Any]
) -> None:
    call = REQUESTS[operation].own(service.ours)
    for headers in (
        {},
        {"Authorization": f"Bearer {NOBODYS_KEY}"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer"},
    ):
        answer = service.send(call, headers)
        if ALLOWED[operation] == PUBLIC:
            assert answer.status_code not in {401, 403}
        else:
            problem_of(answer, "unauthenticated")
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "operation", [name for name, request in REQUESTS.items() if request.foreign]
)
def test_objects_of_another_team_are_as_absent_ones(service: Service, operation: str) -> None:
    make = REQUESTS[operation].foreign
    assert make is not None
    call = make(service.theirs)
    answer = service.send(call, service.keys["admin"])
    # A body that names an absent profile is refused by its place in the body.
    in_body = operation in {
        "evaluate_scenario",
        "evaluate_curve",
        "solve_scenario",
        "draw_timeline",
        "evaluate_remedies",
        "search_pipelines",
        "submit_batch",
        "create_back_test",
    }
    assert answer.status_code == (422 if in_body else 404), answer.text
    theirs = service.theirs
    marks = [theirs.batch, theirs.rate, theirs.export, theirs.report, theirs.slug, theirs.back_test]
    marks.append(theirs.calibration)
    absent = _with_unknown_objects(call, marks)
    other = service.send(absent, service.keys["admin"])
    assert _without_names(answer, marks) == _without_names(other, [UNKNOWN_ID])
    # And whoever owns it finds it, so that the request itself is sound.
    if call[0] == "GET" and operation not in NOT_THERE:
        assert service.send(call, service.theirs.headers).status_code == 200


@pytest.mark.parametrize("operation", ALLOWED)
def test_nothing_of_another_team_is_shown(service: Service, operation: str) -> None:
    answer = service.send(REQUESTS[operation].own(service.ours), service.keys["admin"])
    assert [mark for mark in service.theirs.marks if mark in answer.text] == []


def _with_unknown_objects(call: Any, marks: list[str]) -> Any:
    method, path, arguments = call
    text = msgspec.json.encode([path, arguments]).decode()
    for mark in marks:
        text = text.replace(mark, UNKNOWN_ID)
    path, arguments = msgspec.json.decode(text)
    return method, path, arguments


def _without_names(answer: httpx.Response, names: list[str]) -> Any:
    text = answer.text
    for name in names:
        text = text.replace(name, "NAME")
    return answer.status_code, {**msgspec.json.decode(text), "trace_id": ""}
