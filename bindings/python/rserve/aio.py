"""The engine in an asyncio program: no thread, the loop watches the engine's file descriptor."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from .engine import Detail, Engine, Event
from .parts import Part


class AsyncRequest:
    """A request's events, in order; ends with its terminal one."""

    def __init__(self, engine: AsyncEngine, number: int) -> None:
        self.id = number
        self._engine = engine
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while (event := await self._queue.get()) is not None:
            yield event
            if event.terminal:
                return

    async def first_token(self) -> Event:
        """Waits for the first token. A request that ends without one raises RuntimeError; a waiter
        that is cancelled cancels the request."""
        try:
            async for event in self:
                if event.token >= 0:
                    return event
        except asyncio.CancelledError:
            self.cancel()
            raise
        detail = self._engine.detail(self.id)
        raise RuntimeError(f"request {self.id} ended with {detail.status.name}: {detail.message}")

    def cancel(self) -> None:
        self._engine.cancel(self.id)


class AsyncEngine:
    """As Engine, for use inside one running event loop."""

    def __init__(self, model: str, **options: Any) -> None:
        self._engine = Engine(model, **options)
        self._requests: dict[int, AsyncRequest] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> AsyncEngine:
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._engine.fileno(), self._take)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _take(self) -> None:
        for event in self._engine.poll():
            request = self._requests.get(event.request)
            if request is None:
                continue
            request._queue.put_nowait(event)
            if event.terminal:
                del self._requests[event.request]

    async def submit(self, parts: Sequence[Part], **options: Any) -> AsyncRequest:
        """As Engine.submit. Events are only taken by the loop, so none can come before it returns."""
        request = AsyncRequest(self, self._engine.submit(parts, **options))
        self._requests[request.id] = request
        return request

    def cancel(self, request: int) -> None:
        if request in self._requests:
            self._engine.cancel(request)

    def detail(self, request: int) -> Detail:
        return self._engine.detail(request)

    def acknowledge(self, request: int) -> None:
        self._engine.acknowledge(request)

    def stats(self) -> dict[str, int]:
        return self._engine.stats()

    def decode(self, tokens: Sequence[int]) -> str:
        return self._engine.decode(tokens)

    async def close(self) -> None:
        """Ends open requests; those who wait for them see the end of their events."""
        if self._loop is not None:
            self._loop.remove_reader(self._engine.fileno())
            self._loop = None
        for request in self._requests.values():
            request._queue.put_nowait(None)
        self._requests.clear()
        await asyncio.get_running_loop().run_in_executor(None, self._engine.close)
