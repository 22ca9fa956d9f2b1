"""An ASGI application that answers every request with the same recorded answer.

BENCH_ANSWER names the file: JSON with `status`, `headers` and `body`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Message = MutableMapping[str, Any]


class Constant:
    """The application; it builds its messages once."""

    def __init__(self) -> None:
        answer = json.loads(Path(os.environ["BENCH_ANSWER"]).read_text())
        headers = [(name.encode(), value.encode()) for name, value in answer["headers"].items()]
        status = answer["status"]
        self._start = {"type": "http.response.start", "status": status, "headers": headers}
        self._body = {"type": "http.response.body", "body": answer["body"].encode()}

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        await send(self._start)
        await send(self._body)
