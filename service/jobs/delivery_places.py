"""Places of a process for what is sent at once, and whose turn it is.

A slow receiver holds its place for up to fifteen seconds, a mail server for two minutes. Webhooks,
mail and folders have places of their own; of each, one team has a part only, and a free place goes
to the team that has the fewest. Within a team one receiver has two at most.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from service.db.engine import Row


class Lane(Struct, frozen=True, kw_only=True):
    """What a delivery shares its places with: kind, team and, of a webhook, the endpoint."""

    kind: str
    team_id: UUID
    endpoint_id: UUID | None


class Places(Struct, frozen=True, kw_only=True):
    """Of one kind: all of this process, those of a team and those of a lane."""

    all: int
    of_team: int
    of_lane: int


PLACES: Final = {
    "webhook": Places(all=24, of_team=8, of_lane=2),
    "email": Places(all=4, of_team=2, of_lane=2),
    "directory": Places(all=4, of_team=2, of_lane=2),
}


def lane_of(row: Row[Any]) -> Lane:
    """The lane of a delivery."""
    return Lane(kind=row.kind, team_id=row.team_id, endpoint_id=row.endpoint_id)


class Turns:
    """What is in hand, and so who may begin next."""

    def __init__(self, in_hand: Iterable[Lane]) -> None:
        self._kinds: Counter[str] = Counter()
        self._teams: Counter[tuple[str, UUID]] = Counter()
        self._lanes: Counter[Lane] = Counter()
        for lane in in_hand:
            self.take(lane)

    def take(self, lane: Lane) -> None:
        """Note that one of the lane is in hand."""
        self._kinds[lane.kind] += 1
        self._teams[lane.kind, lane.team_id] += 1
        self._lanes[lane] += 1

    def give_back(self, lane: Lane) -> None:
        """Note that it is not after all."""
        self._kinds[lane.kind] -= 1
        self._teams[lane.kind, lane.team_id] -= 1
        self._lanes[lane] -= 1

    @property
    def open_kinds(self) -> list[str]:
        """The kinds that have a place left."""
        return [kind for kind, places in PLACES.items() if self._kinds[kind] < places.all]

    @property
    def full_endpoints(self) -> list[UUID]:
        """The endpoints of which nothing more is begun now."""
        return [
            lane.endpoint_id
            for lane, number in self._lanes.items()
            if lane.endpoint_id is not None and number >= PLACES[lane.kind].of_lane
        ]

    def has_place(self, lane: Lane) -> bool:
        """Whether one of the lane may begin."""
        places = PLACES[lane.kind]
        return (
            self._kinds[lane.kind] < places.all
            and self._teams[lane.kind, lane.team_id] < places.of_team
            and self._lanes[lane] < places.of_lane
        )

    def next_of(self, waiting: Sequence[Row[Any]]) -> Row[Any] | None:
        """Whose turn it is: of those with a place, of the team with the fewest in hand.

        `waiting` is in the order in which they are due; None: nobody has a place.
        """
        free = [row for row in waiting if self.has_place(lane_of(row))]
        return min(free, key=lambda row: self._teams[row.kind, row.team_id], default=None)
