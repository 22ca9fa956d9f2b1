"""Reads the headers of a message of confluent-kafka.

The name of a header is text in the library, but any bytes in Kafka. For a name that is not UTF-8,
the library (2.16) sets an error but returns a list, in which the name is a null pointer. The
interpreter specialises a call that has run a few times. In such a call, it does not notice the
error, and garbage collection drops it. Reading the null pointer ends the process.
"""

from __future__ import annotations

import gc
from operator import methodcaller
from typing import Any

Header = tuple[str, bytes | None]

_headers = methodcaller("headers")  # never specialised: its calls notice the error


def headers_of(message: Any) -> list[Header] | None:
    """The headers in their order; None if the name of one is not UTF-8."""
    try:
        headers: list[Header] = _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None
    # do not read the items: `get_referents` leaves null pointers out
    return None if any(len(gc.get_referents(header)) < 2 for header in headers) else headers
