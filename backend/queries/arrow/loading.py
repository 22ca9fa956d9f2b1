"""Loads pyarrow, an extra, when the first request needs it."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module


async def can_load() -> bool:
    """Whether pyarrow is installed. It is loaded in another thread, which takes a tenth of a
    second."""
    if "pyarrow.ipc" not in sys.modules:
        try:
            await asyncio.to_thread(import_module, "pyarrow.ipc")
        except ImportError:
            return False
    return True
