"""A slow network between a browser and a server: every byte arrives later."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK = 2**16


@contextmanager
def delayed(port: int, seconds: float) -> Iterator[int]:
    """Yield a local port that leads to `port`; each way takes `seconds` more."""
    loop = asyncio.new_event_loop()

    def pass_on(data: bytes, writer: asyncio.StreamWriter) -> None:
        if not writer.is_closing():
            writer.write(data)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            loop.call_later(seconds, pass_on, data, writer)
        loop.call_later(seconds, writer.close)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        ways = carry(reader, there[1]), carry(there[0], writer)
        await asyncio.gather(*ways, return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
