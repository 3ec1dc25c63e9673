"""Which items of two batches are one scenario: for reports, and for histories to agree with them.

An item is known by its name and the slug of its profile, and by its custom id where several items
of either side share both. What stands on its axes plays no part: a headline is one scenario, and
an input that moved is a cause, not another item (.github/decisions/0023).
"""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class Known(NamedTuple):
    """What an item is known by."""

    name: str
    profile: str | None
    custom_id: str

    @property
    def key(self) -> tuple[str, str | None]:
        """What is enough where no other item of its batch has the same."""
        return (self.name, self.profile)


class PairedUp(NamedTuple, Generic[Item]):
    """The items of both sides in their order: pairs in the order of the past, and who has none.

    `ambiguous` are the names that were told apart by custom ids.
    """

    pairs: list[tuple[Item, Item]]
    only_past: list[Item]
    only_new: list[Item]
    ambiguous: list[str]


def paired_up(
    past: Sequence[Item], new: Sequence[Item], known: Callable[[Item], Known]
) -> PairedUp[Item]:
    """Pair the items of two batches, all of them: also those that have no numbers."""
    past_of, new_of = _by_key(past, known), _by_key(new, known)
    by_id = {known(item): item for item in new}
    pairs: list[tuple[Item, Item]] = []
    only_past: list[Item] = []
    matched: set[int] = set()
    for old in past:
        news = new_of.get(known(old).key, [])
        if len(past_of[known(old).key]) > 1 or len(news) > 1:
            news = [by_id[known(old)]] if known(old) in by_id else []
        if news:
            pairs.append((old, news[0]))
            matched.add(id(news[0]))
        else:
            only_past.append(old)
    shared = [key for of in (past_of, new_of) for key, items in of.items() if len(items) > 1]
    return PairedUp(
        pairs,
        only_past,
        [item for item in new if id(item) not in matched],
        list(dict.fromkeys(name for name, _ in shared)),
    )


def _by_key(
    items: Sequence[Item], known: Callable[[Item], Known]
) -> dict[tuple[str, str | None], list[Item]]:
    found: dict[tuple[str, str | None], list[Item]] = {}
    for item in items:
        found.setdefault(known(item).key, []).append(item)
    return found
