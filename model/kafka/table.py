"""Parses the table `[kafka]`, of views.toml or of another file."""

from __future__ import annotations

from typing import Any

from model.kafka.config_providers import check_references
from model.problems import ConfigurationError
from model.toml_lines import TomlErrors

_SERVERS = "set QUERYABLE_BOOTSTRAP_SERVERS or --bootstrap-servers instead"
# The processes overwrite these. If the table had other brokers, the views of another cluster would
# be served.
_SET_ELSEWHERE = {
    "bootstrap.servers": _SERVERS,
    "metadata.broker.list": _SERVERS,
    "group.id": "set QUERYABLE_APPLICATION_ID instead",
    "enable.auto.commit": "remove it; instances commit no offsets",
}


def parse_kafka(table: Any, errors: TomlErrors) -> dict[str, str]:
    """The settings, with librdkafka's names and unresolved references. Raises ConfigurationError,
    which names the line."""
    if not isinstance(table, dict):
        raise errors.error(("kafka",), None, "must be a table: write [kafka]")
    settings: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            raise errors.error(
                ("kafka",), key.split(".")[0], f'quote the name of the setting: "{key}.…" = "…"'
            )
        if key in _SET_ELSEWHERE:
            raise errors.error(("kafka",), key, _SET_ELSEWHERE[key])
        settings[key] = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            check_references(key, settings[key])
        except ConfigurationError as e:
            raise errors.error(("kafka",), key, str(e).removeprefix(f"{key}: ")) from None
    return settings
