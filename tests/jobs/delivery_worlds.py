"""A schedule, an ended run and its report as rows, and what is planned for them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import uuid_utils.compat
from msgspec import convert, structs
from sqlalchemy import insert, select

from service.db import deliveries as rows
from service.db import schedule_runs
from service.db.engine import Database, Row
from service.db.tables import delivery, delivery_attempt, report, schedule, schedule_run
from service.jobs import delivery_plans, webhook_endpoints
from service.jobs.actors import DEFAULT_TEAM_ID, Actor
from service.jobs.report_store import packed
from service.jobs.run_documents import RunSettings
from service.jobs.webhook_documents import EndpointIn, NewEndpointOut
from service.reports.loss_report import LossReport
from service.settings import Deliveries, Settings
from tests.reports.loss_reports import realistic

NOW = datetime(2027, 3, 28, 1, 31, tzinfo=UTC)
ACTOR = Actor()
# Receivers of tests are on this machine.
DELIVERIES = Deliveries(egress=("127.0.0.0/8",), public_url="https://trainard.example")


class World:
    """One schedule `nightly` and a run of it, in the default team or another."""

    def __init__(self, database: Database, team_id: UUID = DEFAULT_TEAM_ID) -> None:
        self.database = database
        self.team_id = team_id
        self.actor = Actor(team_id=team_id)
        self.schedule_id: UUID = uuid_utils.compat.uuid7()
        identity = {"team_id": team_id, "created_by": "test", "created_at": NOW}
        with database.write() as connection:
            connection.execute(
                insert(schedule).values(
                    id=self.schedule_id,
                    slug="nightly",
                    unique_slug="nightly",
                    name="Nightly, Paris",
                    cron="30 2 * * *",
                    zone="Europe/Paris",
                    definition={},
                    **identity,
                )
            )
        self._num_runs = 0
        self.run_id = self.new_run()

    def new_run(self) -> UUID:
        """A run of the next night."""
        run_id: UUID = uuid_utils.compat.uuid7()
        slot = NOW - timedelta(minutes=31) + timedelta(days=self._num_runs)
        self._num_runs += 1
        with self.database.write() as connection:
            connection.execute(
                insert(schedule_run).values(
                    id=run_id,
                    team_id=self.team_id,
                    created_by="test",
                    created_at=NOW,
                    schedule_id=self.schedule_id,
                    scheduled_for=slot,
                    local_time=(slot + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S+02:00"),
                    zone="Europe/Paris",
                    kind="scheduled",
                    state="succeeded",
                    start_on=slot.date(),
                    earlier_batches=[],
                    tzdata_version="2026.1",
                    warnings=[],
                )
            )
        return run_id

    def store(self, made: LossReport) -> LossReport:
        """Keep the report under an id of its own."""
        kept = structs.replace(made, report_id=uuid_utils.compat.uuid7())
        stored = packed(kept)
        with self.database.write() as connection:
            connection.execute(
                insert(report).values(
                    id=kept.report_id,
                    team_id=self.team_id,
                    created_by="test",
                    state="succeeded",
                    name=kept.name,
                    batch_id=kept.batch.batch_id,
                    settings={},
                    document=stored.document,
                    sha256=stored.sha256,
                )
            )
        return kept

    def endpoint(self, url: str, *, include_costs: bool = False) -> NewEndpointOut:
        with self.database.write() as connection:
            return webhook_endpoints.create_endpoint(
                connection,
                self.actor,
                EndpointIn(name="hook", url=url, include_costs=include_costs),
                Settings(deliveries=DELIVERIES),
                now=NOW - timedelta(days=30),
            )

    def plan(
        self,
        *deliveries: dict[str, Any],
        made: LossReport | None = None,
        state: str = "succeeded",
        reason: str | None = None,
        run_id: UUID | None = None,
        **settings: Any,
    ) -> list[Row[Any]]:
        """Plan the deliveries of the run; all rows that there are then."""
        with self.database.write() as connection:
            run = schedule_runs.find_run(connection, run_id or self.run_id)
            assert run is not None
            found = connection.execute(
                select(schedule).where(schedule.c.id == self.schedule_id)
            ).one()
            delivery_plans.plan(
                connection,
                run=run,
                schedule=found,
                settings=convert({"deliveries": list(deliveries), **settings}, RunSettings),
                report=made,
                state=state,
                reason=reason,
                now=NOW,
            )
        return self.rows()

    def webhook(self, url: str, **changes: Any) -> Row[Any]:
        """One webhook of the realistic report, planned."""
        endpoint = self.endpoint(url, include_costs=changes.get("include_costs", False))
        return self.plan(
            {"kind": "webhook", "endpoint_id": str(endpoint.id), **changes},
            made=self.store(realistic()),
        )[-1]

    def rows(self) -> list[Row[Any]]:
        with self.database.read() as connection:
            query = select(delivery).where(delivery.c.team_id == self.team_id)
            return list(connection.execute(query.order_by(delivery.c.created_at, delivery.c.id)))

    def row(self, delivery_id: UUID) -> Row[Any]:
        with self.database.read() as connection:
            return connection.execute(select(delivery).where(delivery.c.id == delivery_id)).one()

    def attempts(self, delivery_id: UUID) -> list[Row[Any]]:
        with self.database.read() as connection:
            return rows.list_attempts(connection, delivery_id, limit=100)

    def num_attempts(self) -> int:
        with self.database.read() as connection:
            return len(connection.execute(select(delivery_attempt.c.attempt)).all())
