"""The HTTP server, ending long answers when it is told to stop."""

import socket

import uvicorn

from service.api.batch_watch import BatchWatch


class GracefulServer(uvicorn.Server):
    """uvicorn waits for open answers before it tells the app to stop: event streams have no end."""

    def __init__(self, config: uvicorn.Config, watch: BatchWatch) -> None:
        super().__init__(config)
        self._watch = watch

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams and waits, then stop as uvicorn does."""
        self._watch.stop()
        await super().shutdown(sockets)
