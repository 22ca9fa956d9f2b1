"""Reads the headers of a message of confluent-kafka.

The name of a header is text in the library, but any bytes in Kafka. For a name that is not UTF-8,
the library (2.16) returns a list with an error set, and leaves the name in the list a null pointer.
The interpreter does not notice the error in a call that it has specialised, which is one that has
run a few times, and a collection of garbage drops it. Reading the null pointer ends the process.
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
    # not by their items: `get_referents` leaves null pointers out
    return None if any(len(gc.get_referents(header)) < 2 for header in headers) else headers
