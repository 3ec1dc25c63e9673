"""A request of each operation on the objects of a world, and how it may be answered.

`own` makes a request on the world's own objects (as often as asked, each time one that can
succeed); `foreign` one that names an object of that world and is sent by another team, or None
for operations that name none.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from service.api.calibration_examples import COARSE_CALIBRATIONS, OVERLAP_AUDITS
from service.api.examples import EIGHT_STAGES, MEASUREMENTS
from tests.api.access_world import SCENARIO, Call, World
from tests.api.calibration_tables import table, timed_table

CSV_HEADER = "gpu_type,currency,price_per_gpu_hour,valid_from,source\n"
PROFILES = "/v1/cluster-profiles"
RATES = "/v1/gpu-hour-rates"
BATCHES = "/v1/scenario-batches"
ANY_VERSION = {"If-Match": '"1"'}
QUESTION = {
    "unknown": {"path": "num_gpus"},
    "seek": "largest",
    "target": {"column": "gpu_hours_lost", "at_most": 1000},
}
PIPELINE = {"schedule": "1f1b", "stages": 4, "microbatches": 8}
(MEASUREMENT,) = MEASUREMENTS.values()
Make = Callable[[World], Call]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    own: Make
    foreign: Make | None = None


def _get(path: str) -> Request:
    """A read whose path or query names an object of the world."""

    def make(world: World) -> Call:
        return "GET", path.format(world=world), {}

    return Request(own=make, foreign=make if "{world" in path else None)


def _on_batch(method: str, suffix: str, **arguments: Any) -> Request:
    """A change of a batch: one of its own for each request, and its current version."""

    def own(world: World) -> Call:
        path = f"{BATCHES}/{world.new_batch()}"
        return method, path + suffix, {"headers": world.etag(path), **arguments}

    def foreign(world: World) -> Call:
        path = f"{BATCHES}/{world.batch}"
        return method, path + suffix, {"headers": world.etag(path), **arguments}

    return Request(own=own, foreign=foreign)


def _revision_body(world: World) -> dict[str, Any]:
    return {"name": world.name, "gpu_type": "H100", "defaults": SCENARIO}


def _on_profile(method: str, suffix: str, *, archived: bool = False) -> Request:
    def own(world: World) -> Call:
        path = f"{PROFILES}/{world.new_profile()}"
        if archived:
            world.admin("POST", f"{path}/archival", headers=world.etag(path))
        return method, path + suffix, {"headers": world.etag(path)}

    def foreign(world: World) -> Call:
        return method, f"{PROFILES}/{world.slug}{suffix}", {"headers": ANY_VERSION}

    return Request(own=own, foreign=foreign)


def _revise(slug: str, world: World) -> Call:
    path = f"{PROFILES}/{slug}"
    return (
        "POST",
        f"{path}/revisions",
        {"headers": world.etag(path), "json": _revision_body(world)},
    )


def _correct(rate: str, world: World) -> Call:
    path = f"{RATES}/{rate}"
    body = {"valid_until": "2026-12-31", "reason": world.name}
    return "POST", f"{path}/corrections", {"headers": world.etag(path), "json": body}


def _approve(rate: str, world: World) -> Call:
    path = f"{RATES}/{rate}"
    return "POST", f"{path}/approval", {"headers": world.etag(path)}


def _delete_export(export: str, world: World) -> Call:
    path = f"/v1/exports/{export}"
    return "DELETE", path, {"headers": world.etag(path)}


CALIBRATIONS = "/v1/calibrations"


def _accept(calibration: str, world: World) -> Call:
    return "POST", f"{CALIBRATIONS}/{calibration}/acceptance", {"json": world.acceptance_body()}


def _delete_calibration(calibration: str) -> Call:
    return "DELETE", f"{CALIBRATIONS}/{calibration}", {"headers": ANY_VERSION}


BACK_TESTS = "/v1/back-tests"


def _create_back_test(world: World) -> Call:
    return "POST", BACK_TESTS, {"json": world.back_test_body()}


def _delete_back_test(back_test: str) -> Call:
    return "DELETE", f"{BACK_TESTS}/{back_test}", {"headers": ANY_VERSION}


REPORTS = "/v1/reports"
SCHEDULES = "/v1/schedules"
DECEMBER = {"from": "2026-12-01", "until": "2027-01-01"}


def _on_schedule(
    method: str, suffix: str = "", *, paused: bool = False, **arguments: Any
) -> Request:
    """A change of a schedule: one of its own for each request, and its current version."""

    def own(world: World) -> Call:
        path = f"{SCHEDULES}/{world.new_schedule(paused=paused)}"
        return method, path + suffix, {"headers": ANY_VERSION, **arguments}

    def foreign(world: World) -> Call:
        path = f"{SCHEDULES}/{world.schedule}"
        return method, path + suffix, {"headers": ANY_VERSION, **arguments}

    return Request(own=own, foreign=foreign)


def _create_report(world: World) -> Call:
    return "POST", REPORTS, {"json": {"batch_id": world.batch}}


def _delete_report(report: str, world: World) -> Call:
    path = f"{REPORTS}/{report}"
    return "DELETE", path, {"headers": world.etag(path)}


KEYS = "/v1/api-keys"


def _on_key(method: str, suffix: str, **arguments: Any) -> Request:
    """A request on an API key; a change on one of its own for each request."""

    def own(world: World) -> Call:
        path = world.admin("POST", KEYS, json=_key_body(world)).headers["location"]
        return method, path + suffix, {"headers": ANY_VERSION, **arguments}

    def foreign(world: World) -> Call:
        (first, *_) = world.admin("GET", KEYS).json()["items"]
        return method, f"{KEYS}/{first['id']}{suffix}", {"headers": ANY_VERSION, **arguments}

    return Request(own=own, foreign=foreign)


def _key_body(world: World) -> dict[str, Any]:
    return {"name": world.unique(), "role": "viewer"}


def _on_run(path: str, what: str = "run") -> Request:
    """A change of a run or a backfill that has not begun: its schedule is paused."""

    def own(world: World) -> Call:
        schedule = world.new_schedule(paused=True)
        run, backfill = world.new_runs(schedule)
        made = run if what == "run" else backfill
        return "POST", f"{SCHEDULES}/{schedule}{path.format(id=made)}", {}

    def foreign(world: World) -> Call:
        theirs = world.run if what == "run" else world.backfill
        return "POST", f"{SCHEDULES}/{world.schedule}{path.format(id=theirs)}", {}

    return Request(own=own, foreign=foreign)


def _create_backfill(schedule: str) -> Call:
    days = {"first_on": "2020-02-01", "last_on": "2020-03-01", "reprocess": "all"}
    return "POST", f"{SCHEDULES}/{schedule}/backfills", {"json": days}


ENDPOINTS, DELIVERIES = "/v1/webhook-endpoints", "/v1/deliveries"


def _endpoint_body(world: World) -> dict[str, Any]:
    return {"name": world.unique(), "url": "https://hooks.invalid/x"}


def _on_endpoint(method: str, suffix: str, **arguments: Any) -> Request:
    """A change of a webhook endpoint: one of its own for each request."""

    def own(world: World) -> Call:
        path = f"{ENDPOINTS}/{world.new_endpoint()}"
        return method, path + suffix, {"headers": world.etag(path), **arguments}

    def foreign(world: World) -> Call:
        path = f"{ENDPOINTS}/{world.endpoint}"
        return method, path + suffix, {"headers": ANY_VERSION, **arguments}

    return Request(own=own, foreign=foreign)


def _on_delivery(suffix: str, *, ended: bool) -> Request:
    """A change of a delivery that waits, or was called off."""

    def own(world: World) -> Call:
        path = f"{DELIVERIES}/{world.new_delivery()}"
        if ended:
            world.admin("POST", f"{path}/cancellation")
        return "POST", path + suffix, {}

    def foreign(world: World) -> Call:
        return "POST", f"{DELIVERIES}/{world.delivery}{suffix}", {}

    return Request(own=own, foreign=foreign)


REQUESTS: dict[str, Request] = {
    "create_webhook_endpoint": Request(
        own=lambda world: ("POST", ENDPOINTS, {"json": _endpoint_body(world)})
    ),
    "list_webhook_endpoints": _get(ENDPOINTS),
    "get_webhook_endpoint": _get(ENDPOINTS + "/{world.endpoint}"),
    "list_endpoint_deliveries": _get(ENDPOINTS + "/{world.endpoint}/deliveries"),
    "change_webhook_endpoint": _on_endpoint("PATCH", "", json={"enabled": False}),
    "delete_webhook_endpoint": _on_endpoint("DELETE", ""),
    "rotate_webhook_secret": _on_endpoint("POST", "/secret-rotation"),
    "test_webhook_endpoint": _on_endpoint("POST", "/test"),
    "list_deliveries": _get(DELIVERIES),
    "get_delivery": _get(DELIVERIES + "/{world.delivery}"),
    "replay_delivery": _on_delivery("/replay", ended=True),
    "cancel_delivery": _on_delivery("/cancellation", ended=False),
    "get_health": _get("/healthz"),
    "get_readiness": _get("/readyz"),
    "get_metrics": _get("/metrics"),
    "get_openapi": _get("/openapi.json"),
    "list_problem_types": _get("/problems"),
    "read_session": _get("/v1/session"),
    "sign_in": Request(
        own=lambda world: (
            "POST",
            "/v1/session",
            {"json": {"key": world.headers["Authorization"].removeprefix("Bearer ")}},
        )
    ),
    "sign_out": Request(own=lambda _: ("DELETE", "/v1/session", {})),
    "explain_problem_type": _get("/problems/not-found"),
    "list_workers": _get("/v1/workers"),
    "get_meta": _get("/v1/meta"),
    "evaluate_scenario": Request(
        own=lambda _: ("POST", "/v1/evaluations", {"json": {"scenario": SCENARIO}}),
        foreign=lambda world: ("POST", "/v1/evaluations", {"json": {"profile": world.slug}}),
    ),
    "evaluate_curve": Request(
        own=lambda _: ("POST", "/v1/evaluations/curve", {"json": {"scenario": SCENARIO}}),
        foreign=lambda world: ("POST", "/v1/evaluations/curve", {"json": {"profile": world.slug}}),
    ),
    "solve_scenario": Request(
        own=lambda _: (
            "POST",
            "/v1/evaluations/solve",
            {"json": {"scenario": SCENARIO, **QUESTION}},
        ),
        foreign=lambda world: (
            "POST",
            "/v1/evaluations/solve",
            {"json": {"profile": world.slug, **QUESTION}},
        ),
    ),
    "draw_timeline": Request(
        own=lambda _: ("POST", "/v1/evaluations/timeline", {"json": {"scenario": EIGHT_STAGES}}),
        foreign=lambda world: (
            "POST",
            "/v1/evaluations/timeline",
            {"json": {"profile": world.slug}},
        ),
    ),
    "evaluate_remedies": Request(
        own=lambda world: (
            "POST",
            "/v1/evaluations/remedies",
            {"json": {"profile": world.slug, "currency": "EUR"}},
        ),
        foreign=lambda world: (
            "POST",
            "/v1/evaluations/remedies",
            {"json": {"profile": world.slug}},
        ),
    ),
    "search_pipelines": Request(
        own=lambda world: (
            "POST",
            "/v1/evaluations/pipeline-search",
            {
                "json": {
                    "profile": world.slug,
                    "overrides": {"pipeline": PIPELINE},
                    "search": {"stages": [4]},
                    "currency": "EUR",
                }
            },
        ),
        foreign=lambda world: (
            "POST",
            "/v1/evaluations/pipeline-search",
            {"json": {"profile": world.slug, "overrides": {"pipeline": PIPELINE}}},
        ),
    ),
    "list_link_presets": _get("/v1/link-presets"),
    "read_collective_measurement": Request(
        own=lambda _: ("POST", "/v1/collective-measurements", {"json": MEASUREMENT}),
    ),
    "audit_overlap": Request(
        own=lambda _: (
            "POST",
            "/v1/overlap-audits",
            {"json": next(iter(OVERLAP_AUDITS.values()))},
        ),
    ),
    "audit_overlap_of_files": Request(
        own=lambda world: (
            "POST",
            "/v1/overlap-audits/files",
            {"files": [("file", (f"{world.name}.csv", timed_table().decode()))]},
        ),
    ),
    "start_coarsely": Request(
        own=lambda _: (
            "POST",
            "/v1/coarse-calibrations",
            {"json": next(iter(COARSE_CALIBRATIONS.values()))},
        ),
    ),
    "list_profiles": _get(PROFILES),
    "get_profile": _get(PROFILES + "/{world.slug}"),
    "list_profile_revisions": _get(PROFILES + "/{world.slug}/revisions"),
    "get_profile_revision": _get(PROFILES + "/{world.slug}/revisions/1"),
    "create_profile": Request(own=lambda world: ("POST", PROFILES, {"json": world.profile_body()})),
    "revise_profile": Request(
        own=lambda world: _revise(world.slug, world),
        foreign=lambda world: _revise(world.slug, world),
    ),
    "archive_profile": _on_profile("POST", "/archival"),
    "restore_profile": _on_profile("DELETE", "/archival", archived=True),
    # With a name: the whole form, with a file of it, is in test_calibrations.py.
    "create_calibration": Request(
        own=lambda world: (
            "POST",
            f"{CALIBRATIONS}?validate_only=true",
            {"files": [("file", (f"{world.name}.csv", table().decode()))]},
        ),
        foreign=lambda world: (
            "POST",
            f"{CALIBRATIONS}?profile={world.slug}",
            {"files": [("file", ("a.csv", table().decode()))]},
        ),
    ),
    "list_calibrations": _get(CALIBRATIONS),
    "get_calibration": _get(CALIBRATIONS + "/{world.calibration}"),
    "delete_calibration": Request(
        own=lambda world: _delete_calibration(world.new_calibration()),
        foreign=lambda world: _delete_calibration(world.calibration),
    ),
    "accept_calibration": Request(
        own=lambda world: _accept(world.new_calibration(), world),
        foreign=lambda world: _accept(world.calibration, world),
    ),
    "create_back_test": Request(own=_create_back_test, foreign=_create_back_test),
    "list_back_tests": _get(BACK_TESTS),
    "read_drift": _get(BACK_TESTS + "/drift?profile={world.slug}"),
    "get_back_test": _get(BACK_TESTS + "/{world.back_test}"),
    "delete_back_test": Request(
        own=lambda world: _delete_back_test(world.new_back_test()),
        foreign=lambda world: _delete_back_test(world.back_test),
    ),
    "list_rates": _get(RATES),
    "get_rate": _get(RATES + "/{world.rate}"),
    "resolve_rate": _get(RATES + "/resolution?gpu_type=H100&currency=EUR&on=2026-11-29"),
    "create_rate": Request(own=lambda world: ("POST", RATES, {"json": world.rate_body()})),
    "correct_rate": Request(
        own=lambda world: _correct(world.new_rate(), world),
        foreign=lambda world: _correct(world.rate, world),
    ),
    "approve_rate": Request(
        own=lambda world: _approve(world.new_rate(), world),
        foreign=lambda world: _approve(world.rate, world),
    ),
    "import_rates": Request(
        own=lambda world: (
            "POST",
            f"{RATES}/imports",
            {
                "content": f"{CSV_HEADER}{world.unique()},EUR,1.00,2026-01-01,memo\n",
                "headers": {"Content-Type": "text/csv"},
            },
        )
    ),
    "list_batches": _get(BATCHES),
    "get_batch": _get(BATCHES + "/{world.batch}"),
    "list_batch_errors": _get(BATCHES + "/{world.batch}/errors"),
    "watch_batch": _get(BATCHES + "/{world.batch}/events"),
    "get_publication": _get(BATCHES + "/{world.batch}/publication"),
    "list_pricings": _get(BATCHES + "/{world.batch}/pricings"),
    "list_batch_results": _get(BATCHES + "/{world.batch}/results"),
    "submit_batch": Request(
        own=lambda world: ("POST", BATCHES, {"json": world.batch_body()}),
        foreign=lambda world: (
            "POST",
            BATCHES,
            {"json": {"name": "x", "items": [{"custom_id": "x", "profile": world.slug}]}},
        ),
    ),
    "cancel_batch": _on_batch("POST", "/cancellation"),
    "retry_batch": _on_batch("POST", "/retries"),
    "reprice_batch": _on_batch("POST", "/repricings", json={"currency": "EUR"}),
    "publish_batch": _on_batch("POST", "/publication"),
    "unpublish_batch": _on_batch("DELETE", "/publication"),
    "delete_batch": _on_batch("DELETE", ""),
    "list_results": _get("/v1/results"),
    "get_result": _get("/v1/results/{world.batch}.3"),
    "compare_batches": _get("/v1/comparisons?baseline={world.batch}&candidate={world.batch}"),
    "read_loss_history": _get("/v1/loss-history?scenario=one%20slow%20GPU"),
    "export_results": _get("/v1/exports?format=csv"),
    "export_comparison": _get(
        "/v1/exports/comparison?format=csv&baseline={world.batch}&candidate={world.batch}"
    ),
    "create_export": Request(
        own=lambda world: ("POST", "/v1/exports", {"json": {"batch": world.batch}}),
        foreign=lambda world: ("POST", "/v1/exports", {"json": {"batch": world.batch}}),
    ),
    "get_export": _get("/v1/exports/{world.export}"),
    "download_export": _get("/v1/exports/{world.export}/content"),
    "get_export_sidecar": _get("/v1/exports/{world.export}/sidecar"),
    "delete_export": Request(
        own=lambda world: _delete_export(world.new_export(), world),
        foreign=lambda world: _delete_export(world.export, world),
    ),
    "create_schedule": Request(
        own=lambda world: ("POST", SCHEDULES, {"json": world.schedule_body()})
    ),
    "list_schedules": _get(SCHEDULES),
    "get_schedule": _get(SCHEDULES + "/{world.schedule}"),
    "list_occurrences": _get(SCHEDULES + "/{world.schedule}/occurrences"),
    "preview_occurrences": Request(
        own=lambda _world: (
            "POST",
            "/v1/schedule-previews",
            {"json": {"cron": "30 2 * * *", "zone": "Europe/Paris"}},
        )
    ),
    "change_schedule": _on_schedule("PATCH", json={"name": "renamed"}),
    "delete_schedule": _on_schedule("DELETE"),
    "pause_schedule": _on_schedule("POST", "/pause"),
    "resume_schedule": _on_schedule("DELETE", "/pause", paused=True),
    "reprice_schedule": _on_schedule("POST", "/repricings", json=DECEMBER),
    "list_runs": _get(SCHEDULES + "/{world.schedule}/runs"),
    "get_run": _get(SCHEDULES + "/{world.schedule}/runs/{world.run}"),
    "create_run": Request(
        own=lambda world: ("POST", f"{SCHEDULES}/{world.new_schedule()}/runs", {}),
        foreign=lambda world: ("POST", f"{SCHEDULES}/{world.schedule}/runs", {}),
    ),
    "cancel_run": _on_run("/runs/{id}/cancellation"),
    "create_backfill": Request(
        own=lambda world: _create_backfill(world.new_schedule()),
        foreign=lambda world: _create_backfill(world.schedule),
    ),
    "list_backfills": _get(SCHEDULES + "/{world.schedule}/backfills"),
    "get_backfill": _get(SCHEDULES + "/{world.schedule}/backfills/{world.backfill}"),
    "cancel_backfill": _on_run("/backfills/{id}/cancellation", "backfill"),
    "create_report": Request(own=_create_report, foreign=_create_report),
    "list_reports": _get(REPORTS),
    "get_report": _get(REPORTS + "/{world.report}"),
    "read_report": _get(REPORTS + "/{world.report}/content?format=json"),
    "delete_report": Request(
        own=lambda world: _delete_report(world.new_report(), world),
        foreign=lambda world: _delete_report(world.report, world),
    ),
    "read_retention": _get("/v1/retention"),
    "list_audit_events": _get("/v1/audit-events"),
    "list_api_keys": _get(KEYS),
    "create_api_key": Request(own=lambda world: ("POST", KEYS, {"json": _key_body(world)})),
    "get_api_key": _on_key("GET", ""),
    "change_api_key": _on_key("PATCH", "", json={"name": "renamed"}),
    "revoke_api_key": _on_key("POST", "/revocation"),
}
