"""What one team has on a running service, and a request of each operation that addresses it."""

import itertools
from typing import Any

import httpx
from sqlalchemy import select

from service.api.examples import BATCH_EXAMPLES
from service.db.tables import cluster_profile
from service.jobs.actors import Actor
from tests.api.calibration_tables import stored
from tests.api.served import wait_until

(SLOW, *_) = BATCH_EXAMPLES.values()
SCENARIO = SLOW["items"][0]["scenario"]
# method, path, further arguments of httpx
Call = tuple[str, str, dict[str, Any]]


class World:
    """The objects of one team, made through the API with its administrator's key."""

    def __init__(self, client: Any, headers: dict[str, str], name: str) -> None:
        self.name = name
        self._client = client
        self.headers = headers
        self._numbers = itertools.count()
        self.slug = self.new_profile()
        self.back_test = self.new_back_test()
        self.calibration = self.new_calibration()
        self.rate = self.new_rate()
        self.batch = self.new_batch()
        self.export = self.new_export()
        self.report = self.new_report()
        self.schedule = self.new_schedule()
        self.run, self.backfill = self.new_runs(self.schedule)
        self.endpoint = self.new_endpoint()
        self.delivery = self.new_delivery()

    @property
    def marks(self) -> list[str]:
        """Texts that nobody of another team may ever read."""
        ids = [self.rate, self.batch, self.export, self.report, self.endpoint, self.delivery]
        return [self.name, self.back_test, self.calibration, *ids]

    def admin(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        headers = {**self.headers, **arguments.pop("headers", {})}
        answer: httpx.Response = self._client.request(method, path, headers=headers, **arguments)
        assert answer.status_code < 300, answer.text
        return answer

    def unique(self) -> str:
        return f"{self.name}-{next(self._numbers)}"

    def profile_body(self) -> dict[str, Any]:
        return {
            "slug": self.unique(),
            "name": self.name,
            "gpu_type": "H100",
            "defaults": SCENARIO,
        }

    def rate_body(self) -> dict[str, Any]:
        return {
            "gpu_type": self.unique(),
            "price_per_gpu_hour": {"amount": "1.00", "currency": "EUR"},
            "valid_from": "2026-01-01",
            "source": self.name,
        }

    def batch_body(self) -> dict[str, Any]:
        return {**SLOW, "name": self.unique()}

    def new_profile(self) -> str:
        body = self.profile_body()
        self.admin("POST", "/v1/cluster-profiles", json=body)
        slug: str = body["slug"]
        return slug

    def back_test_body(self) -> dict[str, Any]:
        run = {"name": self.unique(), "num_steps": 1000, "step_mean_ms": 550}
        return {"profile": self.slug, "run": run}

    def new_back_test(self) -> str:
        made = self.admin("POST", "/v1/back-tests", json=self.back_test_body())
        back_test_id: str = made.json()["id"]
        return back_test_id

    def new_calibration(self) -> str:
        """Stored past the API: each upload has a process of its own."""
        database = self._client.app.state.database
        with database.read() as connection:
            own = cluster_profile.c.slug == self.slug
            team_id = connection.scalars(select(cluster_profile.c.team_id).where(own)).one()
        return str(stored(database, Actor(team_id=team_id), self.unique()).id)

    def acceptance_body(self) -> dict[str, Any]:
        return {"profile": self.unique(), "new_profile": {"name": self.name, "gpu_type": "H100"}}

    def new_rate(self) -> str:
        rate_id: str = self.admin("POST", "/v1/gpu-hour-rates", json=self.rate_body()).json()["id"]
        return rate_id

    def new_batch(self) -> str:
        made = self.admin("POST", "/v1/scenario-batches", json=self.batch_body())
        path = made.headers["location"]
        self._wait(path)
        batch_id: str = made.json()["id"]
        return batch_id

    def new_export(self) -> str:
        made = self.admin("POST", "/v1/exports", json={"batch": self.batch, "format": "csv"})
        path = f"/v1/exports/{made.json()['id']}"
        self._wait(path)
        export_id: str = made.json()["id"]
        return export_id

    def new_report(self) -> str:
        made = self.admin("POST", "/v1/reports", json={"batch_id": self.batch})
        path = f"/v1/reports/{made.json()['id']}"
        self._wait(path)
        report_id: str = made.json()["id"]
        return report_id

    def schedule_body(self) -> dict[str, Any]:
        """Its first slot comes in years."""
        return {
            "slug": self.unique(),
            "name": self.name,
            "cron": "0 0 29 2 *",
            "zone": "UTC",
            "batch": {"items": [{"custom_id": "a", "scenario": SCENARIO}], "currency": "EUR"},
        }

    def new_runs(self, schedule: str) -> tuple[str, str]:
        """A run and a backfill of the schedule; a paused one lets them wait."""
        days = {"first_on": "2024-02-01", "last_on": "2024-03-01", "reprocess": "all"}
        path = f"/v1/schedules/{schedule}"
        backfill_id: str = self.admin("POST", f"{path}/backfills", json=days).json()["id"]
        made = self.admin("GET", f"{path}/runs?backfill={backfill_id}").json()["items"]
        run_id: str = made[0]["id"]
        return run_id, backfill_id

    def new_schedule(self, **changes: Any) -> str:
        body = {**self.schedule_body(), **changes}
        self.admin("POST", "/v1/schedules", json=body)
        slug: str = body["slug"]
        return slug

    def new_endpoint(self) -> str:
        # Nothing is ever reached under such a name.
        body = {"name": self.name, "url": "https://hooks.invalid/x"}
        made = self.admin("POST", "/v1/webhook-endpoints", json=body)
        endpoint_id: str = made.json()["id"]
        return endpoint_id

    def new_delivery(self) -> str:
        """A message that waits, as its endpoint is not there."""
        # Of an endpoint of its own: few such messages may wait for one.
        made = self.admin("POST", f"/v1/webhook-endpoints/{self.new_endpoint()}/test")
        delivery_id: str = made.json()["id"]
        return delivery_id

    def etag(self, path: str) -> dict[str, str]:
        return {"If-Match": self.admin("GET", path).headers["etag"]}

    def _wait(self, path: str) -> None:
        wait_until(lambda: self.admin("GET", path).json()["state"] == "succeeded")
