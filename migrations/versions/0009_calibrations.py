"""Calibrations, and which of them a profile's revision comes from.

Keys that hold all scopes of their role hold the two new ones too; narrowed keys stay as narrow.
Going down loses the calibrations; the revisions made of them stay.
"""

from collections.abc import Callable

import sqlalchemy as sa
from alembic import op

from service.db.types import UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Of the roles as they were; the new scopes come right behind the others that read or write.
READ, WRITE = "calibrations:read", "calibrations:write"
_VIEWER = frozenset(
    (
        "service:read",
        "profiles:read",
        "batches:read",
        "results:read",
        "evaluations:run",
        "exports:create",
        "schedules:read",
    )
)
_PLANNER = _VIEWER | {"schedules:write", "webhooks:write", "profiles:write", "batches:write"}
_FINANCE = _VIEWER | {
    "schedules:write",
    "webhooks:write",
    "batches:write",
    "costs:read",
    "costs:write",
    "costs:approve",
}
_ADMIN = _PLANNER | _FINANCE | {"metrics:read", "keys:read", "keys:write", "audit:read"}
_WHOLE = {"viewer": _VIEWER, "planner": _PLANNER, "finance": _FINANCE, "admin": _ADMIN}
_NEW = {"viewer": [READ], "planner": [READ, WRITE], "finance": [READ], "admin": [READ, WRITE]}

_key = sa.table(
    "api_key",
    sa.column("id", sa.Uuid()),
    sa.column("role", sa.String()),
    sa.column("scopes", sa.JSON()),
)


def upgrade() -> None:
    op.create_table(
        "calibration",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("team_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=200), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("profile_revision_id", sa.Uuid(), nullable=True),
        sa.Column("profile_slug", sa.String(length=64), nullable=True),
        sa.Column("profile_revision", sa.Integer(), nullable=True),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("source_digest", sa.String(length=80), nullable=False),
        sa.Column("model_version", sa.String(length=20), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("num_ranks", sa.Integer(), nullable=False),
        sa.Column("compute_ms", sa.Float(53), nullable=False),
        sa.Column("persistent_cv", sa.Float(53), nullable=True),
        sa.Column("transient_cv", sa.Float(53), nullable=True),
        sa.Column("num_outliers", sa.Integer(), nullable=False),
        sa.Column("slowest_to_median_mean_ratio", sa.Float(53), nullable=False),
        sa.Column("overlap_verdict", sa.String(length=20), nullable=True),
        sa.Column("accepted_slug", sa.String(length=64), nullable=True),
        sa.Column("accepted_revision", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["profile_revision_id"],
            ["cluster_profile_revision.id"],
            name=op.f("fk_calibration_profile_revision_id"),
        ),
        sa.ForeignKeyConstraint(["team_id"], ["team.id"], name=op.f("fk_calibration_team_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibration")),
    )
    op.create_index(
        "ix_calibration_team_id_created_at", "calibration", ["team_id", "created_at", "id"]
    )
    op.create_index(
        "ix_calibration_team_id_profile_slug", "calibration", ["team_id", "profile_slug"]
    )
    op.create_index("ix_calibration_profile_revision_id", "calibration", ["profile_revision_id"])
    op.add_column("cluster_profile_revision", sa.Column("provenance", sa.JSON(), nullable=True))
    _change_scopes(
        lambda role, scopes: scopes + _NEW[role] if _WHOLE[role] <= frozenset(scopes) else scopes
    )


def downgrade() -> None:
    _change_scopes(lambda _, scopes: [scope for scope in scopes if scope not in (READ, WRITE)])
    op.drop_column("cluster_profile_revision", "provenance")
    op.drop_index("ix_calibration_profile_revision_id", table_name="calibration")
    op.drop_index("ix_calibration_team_id_profile_slug", table_name="calibration")
    op.drop_index("ix_calibration_team_id_created_at", table_name="calibration")
    op.drop_table("calibration")


def _change_scopes(changed: Callable[[str, list[str]], list[str]]) -> None:
    connection = op.get_bind()
    for key in connection.execute(sa.select(_key)).all():
        scopes = changed(key.role, list(key.scopes))
        if scopes != key.scopes:
            connection.execute(sa.update(_key).where(_key.c.id == key.id).values(scopes=scopes))
