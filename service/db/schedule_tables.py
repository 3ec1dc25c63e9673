"""The tables of what happens at night: schedules, their ledger, reports and deliveries."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Date,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
)

from service.db.table_parts import bulk_identity, identity, metadata
from service.db.types import UtcDateTime

schedule = Table(
    "schedule",
    metadata,
    *identity(),
    Column("slug", String(64), nullable=False),
    Column("name", String(200), nullable=False),
    Column("cron", String(200), nullable=False),
    Column("zone", String(64), nullable=False),
    # What `ScheduleIn` says beside slug, name, cron and zone, as it was sent
    Column("definition", JSON, nullable=False),
    # The first slot that is not in the ledger; null while it is paused or has no more
    Column("next_at", UtcDateTime),
    Column("paused_at", UtcDateTime),
    Column("paused_by", String(200)),
    # Its ledger stays readable; the slug is free again
    Column("deleted_at", UtcDateTime),
    # The slug while it is there, its id afterwards
    Column("unique_slug", String(64), nullable=False),
    UniqueConstraint("team_id", "unique_slug"),
    Index("ix_schedule_next_at", "next_at"),
)

schedule_backfill = Table(
    "schedule_backfill",
    metadata,
    *identity(),
    Column("schedule_id", Uuid, ForeignKey("schedule.id"), nullable=False),
    Column("first_on", Date, nullable=False),
    Column("last_on", Date, nullable=False),
    Column("reprocess", String(16), nullable=False),
    Column("newest_first", Boolean, nullable=False),
    Column("max_running", Integer, nullable=False),
    Column("num_slots", Integer, nullable=False),
    # Whether its runs are delivered as those of every night are
    Column("deliver", Boolean, nullable=False),
    Column("canceled_at", UtcDateTime),
    Index("ix_schedule_backfill_schedule_id", "schedule_id"),
)

# The ledger: one row for every slot that came, whatever became of it.
schedule_run = Table(
    "schedule_run",
    metadata,
    *identity(),
    Column("schedule_id", Uuid, ForeignKey("schedule.id"), nullable=False),
    Column("scheduled_for", UtcDateTime, nullable=False),
    # The wall time of the slot with its offset, as its zone had it
    Column("local_time", String(40), nullable=False),
    # Its schedule's then: that may be another one now
    Column("zone", String(64), nullable=False),
    # scheduled, manual, backfill
    Column("kind", String(16), nullable=False),
    Column("backfill_id", Uuid, ForeignKey("schedule_backfill.id")),
    Column("state", String(20), nullable=False),
    # Why it was skipped, replaced, has failed or waits
    Column("reason", Text),
    # 1, and one more each time that a backfill does the slot again
    Column("attempt", Integer, nullable=False, default=1),
    # The schedule as it was when the run began: its version, and what it says of the report
    Column("schedule_version", Integer),
    Column("settings", JSON),
    Column("start_on", Date, nullable=False),
    # No foreign keys: batch and report may be deleted before the ledger.
    Column("batch_id", Uuid),
    Column("report_id", Uuid),
    Column("baseline_run_id", Uuid),
    # Why it is compared with nothing, where it has a report and no baseline
    Column("baseline_missing", String(40)),
    # What is left of earlier attempts: [{attempt, state, batch_id, report_id, ended_at}]
    Column("earlier_batches", JSON, nullable=False),
    Column("tzdata_version", String(16), nullable=False),
    Column("warnings", JSON, nullable=False),
    # within, over, unknown; null: no budget
    Column("budget_status", String(16)),
    # What it was held against, with the numbers; may hold money
    Column("budget", JSON),
    # Not to be begun before then: the team's quota was used up, or the queue full
    Column("not_before", UtcDateTime),
    Column("started_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    UniqueConstraint("schedule_id", "scheduled_for"),
    Index("ix_schedule_run_state", "state", "created_at"),
    Index("ix_schedule_run_batch_id", "batch_id"),
    Index("ix_schedule_run_backfill_id", "backfill_id"),
)

# A report is made once, by a task of the engine, and never changes: other prices, another report.
report = Table(
    "report",
    metadata,
    *identity(),
    Column("state", String(16), nullable=False),
    Column("name", String(200), nullable=False),
    Column("batch_id", Uuid, nullable=False),
    Column("pricing", Integer, nullable=False, default=1),
    Column("baseline_batch_id", Uuid),
    Column("baseline_pricing", Integer, nullable=False, default=1),
    # Of the run that it reports on; none: asked for by hand
    Column("run_id", Uuid, ForeignKey("schedule_run.id")),
    Column("schedule_id", Uuid, ForeignKey("schedule.id")),
    Column("settings", JSON, nullable=False),
    # The whole document with all money, zstd-compressed JSON: readers get what they may see
    Column("document", LargeBinary),
    # sha-256 of it before compression
    Column("sha256", String(64)),
    Column("failure", Text),
    Column("enqueued_version", Integer),
    Column("running_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Index("ix_report_state", "state"),
    Index("ix_report_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_report_run_id", "run_id"),
    Index("ix_report_batch_id", "batch_id"),
)

# What moved a scenario's loss between a batch and the one before it: typed, for histories.
loss_change = Table(
    "loss_change",
    metadata,
    *bulk_identity(),
    Column("report_id", Uuid, ForeignKey("report.id", ondelete="CASCADE"), primary_key=True),
    # Result ids are {batch}.{point}
    Column("point", BigInteger, primary_key=True),
    Column("batch_id", Uuid, nullable=False),
    Column("past_batch_id", Uuid, nullable=False),
    Column("past_point", BigInteger, nullable=False),
    Column("name", String(200), nullable=False),
    Column("profile_slug", String(64)),
    # On 30 days
    Column("past_gpu_hours_lost", Float(53), nullable=False),
    Column("new_gpu_hours_lost", Float(53), nullable=False),
    # [{cause, detail, path, past, new, gpu_hours}]: they sum to the difference
    Column("causes", JSON, nullable=False),
    Index("ix_loss_change_batch_id", "batch_id", "past_batch_id"),
)

webhook_endpoint = Table(
    "webhook_endpoint",
    metadata,
    *identity(),
    Column("name", String(200), nullable=False),
    Column("url", String(2000), nullable=False),
    # [{ciphertext or secret, created_at, expires_at}], newest first; never shown again
    Column("secrets", JSON, nullable=False),
    Column("include_costs", Boolean, nullable=False),
    Column("disabled_at", UtcDateTime),
    Column("disabled_reason", String(500)),
    # Its deliveries stay in the log
    Column("deleted_at", UtcDateTime),
    Index("ix_webhook_endpoint_team_id_created_at", "team_id", "created_at", "id"),
)

# The outbox and the log of it: written in the transaction that ends the run, sent afterwards.
delivery = Table(
    "delivery",
    metadata,
    *identity(),
    # Of the message: the same at every attempt and in every replay
    Column("message_id", String(64), nullable=False),
    # Why it exists at all: written twice, it is one
    Column("dedup_key", String(200), nullable=False),
    Column("event", String(64), nullable=False),
    # webhook, email, directory
    Column("kind", String(16), nullable=False),
    Column("endpoint_id", Uuid, ForeignKey("webhook_endpoint.id")),
    # What `DeliveryIn` says of the place
    Column("target", JSON, nullable=False),
    Column("run_id", Uuid, ForeignKey("schedule_run.id")),
    Column("report_id", Uuid),
    Column("schedule_id", Uuid, ForeignKey("schedule.id")),
    Column("include_costs", Boolean, nullable=False),
    # pending, delivered, dead, skipped, canceled
    Column("state", String(16), nullable=False),
    # Why it is sent, or is not
    Column("reason", Text, nullable=False),
    # The exact bytes that a webhook is sent; signed at each attempt
    Column("payload", LargeBinary),
    Column("attempts", Integer, nullable=False, default=0),
    Column("next_attempt_at", UtcDateTime),
    # Who sends it now, and until when nobody else may
    Column("claimed_by", String(120)),
    Column("claimed_until", UtcDateTime),
    Column("first_attempt_at", UtcDateTime),
    Column("ended_at", UtcDateTime),
    Column("last_status", Integer),
    Column("last_error", String(500)),
    # What was done so far: recipients that have it or refuse it, files that were written
    Column("outcome", JSON),
    # When its files are to be removed; null: never, there are none, or they are gone
    Column("files_expire_at", UtcDateTime),
    UniqueConstraint("team_id", "dedup_key"),
    UniqueConstraint("message_id"),
    Index("ix_delivery_state_next_attempt_at", "state", "next_attempt_at"),
    Index("ix_delivery_team_id_created_at", "team_id", "created_at", "id"),
    Index("ix_delivery_run_id", "run_id"),
    Index("ix_delivery_endpoint_id", "endpoint_id"),
    Index("ix_delivery_files_expire_at", "files_expire_at"),
)

delivery_attempt = Table(
    "delivery_attempt",
    metadata,
    *bulk_identity(),
    Column("delivery_id", Uuid, ForeignKey("delivery.id", ondelete="CASCADE"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("duration_ms", Integer, nullable=False),
    Column("status", Integer),
    Column("error", String(500)),
    # The first bytes of what was answered
    Column("answer", String(1000)),
)
