"""HTTP/1.1 over kept connections at little cost: a client must not use what it measures."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """What was answered; the names of `headers` are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One request after the other to one address; raises `OSError` when the other side is gone."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(address)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self._common = _lines({"Host": parts.netloc, **(headers or {})})
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect, if it is not."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request (`body` as JSON) and read its answer."""
        reader, writer = await self.open()
        content = b"" if body is None else json.dumps(body).encode()
        more = {**(headers or {}), "Content-Length": str(len(content))}
        if body is not None:
            more["Content-Type"] = "application/json"
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\n{self._common}{_lines(more)}\r\n".encode())
            writer.write(content)
            return await _answer(reader)
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise ConnectionError(str(error)) from error


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())


async def _answer(reader: asyncio.StreamReader) -> Answer:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
    headers = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    status = int(first.split()[1])
    # 204 and 304 have no body; everything else that is asked here says how long it is.
    length = 0 if status in {204, 304} else int(headers["content-length"])
    return Answer(status, headers, await reader.readexactly(length))


async def at_once(
    connections: Sequence[Connection], requests: Sequence[tuple[Any, ...]]
) -> list[Answer]:
    """Send the requests, each on its connection, before any of the answers is read."""
    for connection in connections:
        await connection.open()
    return await asyncio.gather(
        *(
            connection.ask(*request)
            for connection, request in zip(connections, requests, strict=True)
        )
    )
