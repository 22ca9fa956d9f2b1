"""Environment variables that were settings of a backend once.

An instance that ignored them would run with other numbers than its operator believes. So it does
not start, and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from model.problems import ConfigurationError

_ADVERTISED = "set QUERYABLE_ADVERTISED, host or host:port, instead"
_MEMTABLES = "a memtable has a twelfth of QUERYABLE_BLOCK_CACHE_MB, up to 32 MiB: set that instead"

_GONE = {
    "QUERYABLE_ADVERTISED_HOST": _ADVERTISED,
    "QUERYABLE_ADVERTISED_PORT": _ADVERTISED,
    "QUERYABLE_BACKGROUND_JOBS": "remove it, it is always 2",
    "QUERYABLE_BROKER_TIMEOUT": "remove it, it is always 5 s",
    "QUERYABLE_CLEANUP_DELAY": "remove it, it is always 600 s",
    "QUERYABLE_CLOCK_TOLERANCE": "remove it, it is always 60 s",
    "QUERYABLE_COPY_THRESHOLD": "remove it, it is always 100,000 records, and 1 for a compacted "
    "topic whose keys may be in several partitions",
    "QUERYABLE_DRAIN_TIME": "remove it, it is always 1.5 s",
    "QUERYABLE_FORWARD_TIMEOUT": "remove it, it is always 2 s",
    "QUERYABLE_GROUP_RECORD_BYTES": "remove it, it is always 900,000 bytes",
    "QUERYABLE_HEARTBEAT_INTERVAL": "remove it, it is always 0.25 s",
    "QUERYABLE_JWT_JWKS_MAX_AGE": "remove it, it is always 86,400 s",
    "QUERYABLE_JWT_JWKS_REFRESH": "remove it, it is always 10 s",
    "QUERYABLE_KIQR": "remove it, KIQR's dialect is always served; to hide it, let nginx refuse "
    "/api/v1/",
    "QUERYABLE_MAX_KEY_BYTES": "remove it, it is always 8,192 bytes",
    "QUERYABLE_METADATA_MAX_AGE_MS": "remove it, it is always five times "
    "QUERYABLE_END_OFFSET_INTERVAL",
    "QUERYABLE_PUSH_INTERVAL": "remove it, it is always 0.5 s",
    "QUERYABLE_REQUEST_TIMEOUT": "remove it, it is always 30 s",
    "QUERYABLE_SEND_TIMEOUT": "remove it, it is always 60 s",
    "QUERYABLE_START_TIMEOUT": "remove it, it is always 30 s",
    "QUERYABLE_WAIT_TIMEOUT": "remove it, it is always 0.2 s",
    "QUERYABLE_WRITE_BUFFER_MB": _MEMTABLES,
}


def gone_settings(environment: Iterable[str]) -> dict[str, str]:
    """What to do with each variable that is no longer a setting. Settings are read in upper and
    lower case."""
    variables = {name.upper() for name in environment}
    return {name: action for name, action in _GONE.items() if name in variables}


def refuse_gone_settings(environment: Iterable[str]) -> None:
    """Raise ConfigurationError if variables are no longer settings. It says what to do."""
    if gone := gone_settings(environment):
        sentences = (f"{name} is no longer a setting: {action}." for name, action in gone.items())
        raise ConfigurationError(" ".join(sentences))
