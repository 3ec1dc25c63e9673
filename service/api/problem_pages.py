"""`/problems`: what each `type` of a problem document means."""

from html import escape
from typing import Annotated

from litestar.handlers import HTTPRouteHandler
from msgspec import Meta, Struct

from service.api.answers import raw_answer
from service.api.contract import Answer, ApiRequest, ApiResponse, Contract, operation
from service.api.docs import HTML
from service.api.parameters import read_path, refuse_query
from service.api.problem_types import PROBLEM_TYPES, ProblemType
from service.errors import NotFoundError

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Trainard</title>
<link rel="icon" href="data:,">
</head>
<body>
<main>
<h1>{title}</h1>
{content}
</main>
</body>
</html>
"""


class ProblemPath(Struct, frozen=True, kw_only=True):
    """The kind of problem in the path."""

    slug: Annotated[
        str,
        Meta(max_length=64, description="Last part of its `type`.", examples=["invalid-scenario"]),
    ]


@operation(
    "GET",
    "/problems",
    Contract(
        operation_id="list_problem_types",
        scope=None,
        summary="All kinds of problem, as a page",
        tag="Service",
        answers={200: Answer(description="A page", media_types=(HTML,))},
    ),
)
async def list_problem_types(request: ApiRequest) -> ApiResponse:
    """Answer with the index."""
    refuse_query(request)
    rows = "\n".join(
        f'<li>{kind.status} <a href="{kind.uri}">{escape(kind.title)}</a></li>'
        for kind in sorted(PROBLEM_TYPES.values(), key=lambda kind: (kind.status, kind.slug))
    )
    return _page("Problems that the service answers with", f"<ul>\n{rows}\n</ul>")


@operation(
    "GET",
    "/problems/{slug:str}",
    Contract(
        operation_id="explain_problem_type",
        scope=None,
        summary="What a kind of problem means, as a page",
        tag="Service",
        path=ProblemPath,
        answers={200: Answer(description="A page", media_types=(HTML,))},
    ),
)
async def explain_problem_type(request: ApiRequest) -> ApiResponse:
    """Answer with the explanation."""
    refuse_query(request)
    slug = read_path(request, ProblemPath).slug
    kind = PROBLEM_TYPES.get(slug)
    if kind is None:
        raise NotFoundError(f"there is no kind of problem {slug!r}; /problems lists them")
    return _page(kind.title, _explained(kind))


def _explained(kind: ProblemType) -> str:
    return (
        f"<p><code>{kind.uri}</code>, HTTP status {kind.status}</p>\n"
        f"<p>{escape(kind.explanation)}</p>\n"
        '<p><a href="/problems">All problems</a></p>'
    )


def _page(title: str, content: str) -> ApiResponse:
    return raw_answer(_PAGE.format(title=escape(title), content=content).encode(), media_type=HTML)


routes: list[HTTPRouteHandler] = [list_problem_types, explain_problem_type]
