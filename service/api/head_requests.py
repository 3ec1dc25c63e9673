"""HEAD: answered by the handler of GET, whose body the edge drops.

A handler that would make or read a large body asks here whether anybody will see it.
"""

from typing import Any, Final

from service.api.contract import ApiRequest

_KEY: Final = "trainard.is_head"


def mark_head(scope: Any) -> None:
    """Turn the HEAD into a GET, and remember that it was one."""
    scope["method"] = "GET"
    scope[_KEY] = True


def is_head(request: ApiRequest) -> bool:
    """Whether the body of the answer will be dropped."""
    scope: Any = request.scope
    return _KEY in scope
