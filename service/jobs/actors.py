"""Who acts: the team whose rows are touched and the name that is written beside them."""

from uuid import UUID

import msgspec

DEFAULT_TEAM_ID = UUID("00000000-0000-7000-8000-000000000001")


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """The acting team and person; until keys exist everybody is the default team's `local`."""

    team_id: UUID = DEFAULT_TEAM_ID
    name: str = "local"
