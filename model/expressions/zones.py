"""Names of time zones."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

UTC = "UTC"
# Java knows no zones of the folders posix and right.
_ZONE = re.compile(r"(?!posix|right)[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){1,2}", re.ASCII)
_MAX_ZONE_LENGTH = 64


def check_zone(name: str) -> None:
    """Raise ValueError if there is no time zone with this name."""
    try:
        if name != UTC:
            if len(name) > _MAX_ZONE_LENGTH or not _ZONE.fullmatch(name):
                raise ValueError
            ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise ValueError(
            f'"{name[:_MAX_ZONE_LENGTH]}" is not a time zone such as "Europe/Berlin" or "UTC", or '
            "this machine does not have its rules: install tzdata"
        ) from None
