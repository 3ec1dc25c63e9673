"""A small HTTP client that asks as fast as it is answered, over kept connections."""

import asyncio
import time

import uvloop

CONNECTIONS = 8


def requests_per_s(host: str, port: int, path: str, body: bytes, *, for_s: float) -> float:
    """Answered POST requests per second over `CONNECTIONS` connections; raises on any but 200."""
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    return uvloop.run(_measure(host, port, request, for_s))


async def _measure(host: str, port: int, request: bytes, for_s: float) -> float:
    start = time.perf_counter()
    counts = await asyncio.gather(
        *(_ask(host, port, request, until=start + for_s) for _ in range(CONNECTIONS))
    )
    return sum(counts) / (time.perf_counter() - start)


async def _ask(host: str, port: int, request: bytes, *, until: float) -> int:
    reader, writer = await asyncio.open_connection(host, port)
    done = 0
    try:
        while time.perf_counter() < until:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            await reader.readexactly(_content_length(head))
            done += 1
    finally:
        writer.close()
    return done


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    raise RuntimeError(f"no Content-Length: {head!r}")
