"""The least that Litestar can do with the same body: decode it and send it back."""

import socket
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response, post


@post("/v1/evaluations", status_code=200)
async def echo(request: Request[Any, Any, Any]) -> Response[Any]:
    """Answer with the decoded body."""
    return Response(await request.json())


def main() -> None:
    """Serve on a free port and print the address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    app = Litestar([echo], openapi_config=None)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_config=None, access_log=False)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
