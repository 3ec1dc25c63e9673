"""Who may see money: what a caller asks for that would tell it all the same is refused.

Money itself is withheld where it is read: `prices.read_prices` loads none for such a caller. What
is refused is what tells of money without showing it: an order or a filter by cost, a choice of
batches by their prices, a repricing, and a file that was made for somebody who sees money.
"""

from service.errors import ForbiddenError
from service.jobs.actors import Actor


def require_costs(actor: Actor, what: str) -> None:
    """Raise `ForbiddenError`, which says that `what` needs costs:read, unless money is seen."""
    if not actor.sees_costs:
        raise ForbiddenError(f"{what} needs the scope costs:read, which {actor.name} has not")
