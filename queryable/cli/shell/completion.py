"""Completion of commands, options, views and keys in the shell."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from queryable import Client, View
from queryable.cli.values import json_value
from queryable.client.protocol.errors import QueryableError

MAX_KEYS = 50
_VIEWS_ARE_FRESH_FOR = 10.0  # s
_QUOTED = " \t\n'\"\\"


class Deployment(Protocol):
    """The views and keys that exist; empty if the deployment does not answer."""

    def views(self) -> list[str]: ...

    def keys(self, view: str, beginning: str) -> list[str]: ...


class LiveDeployment:
    """Asks a deployment, within a short time, because a user waits for the answer."""

    def __init__(
        self, make_client: Callable[[], Client], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make_client = make_client
        self._clock = clock
        self._views: list[str] = []
        self._read_at = float("-inf")

    def views(self) -> list[str]:
        if self._clock() - self._read_at >= _VIEWS_ARE_FRESH_FOR:
            try:
                with self._make_client() as client:
                    self._views = sorted(view.name for view in client.views())
            except QueryableError:
                return []
            self._read_at = self._clock()
        return self._views

    def keys(self, view: str, beginning: str) -> list[str]:
        try:
            with self._make_client() as client:
                info = client.view(view)
                rows = client.scan(view, prefix=_prefix(info, beginning), limit=MAX_KEYS)
                return [_key_text(row.key) for row in rows]
        except QueryableError:
            return []


def _prefix(view: View, beginning: str) -> Any:
    """Only keys that are text have a prefix; the first of the others are offered."""
    if not beginning or not view.key.has_prefixes:
        return None
    return view.key.python.from_typed(beginning)


def _key_text(key: Any) -> str:
    value = json_value(key)
    return value if isinstance(value, str) else str(value)


class Completer:
    """`options`: command ► its options. The second word of the commands in `with_view` is a view,
    and the third of those in `with_keys` a key."""

    def __init__(
        self,
        options: Mapping[str, Sequence[str]],
        with_view: frozenset[str],
        with_keys: frozenset[str],
        deployment: Deployment,
    ) -> None:
        self._options = options
        self._with_view = with_view
        self._with_keys = with_keys
        self._deployment = deployment

    def complete(self, before: str, word: str) -> list[str]:
        """The words that may replace `word`, which follows the text `before`; as they are typed,
        with a space after them."""
        try:
            words = shlex.split(before)
        except ValueError:  # an open quote
            return []
        found = self._candidates([each for each in words if each[:1] != "-"], words, word)
        return [f"{_quoted(each)} " for each in found if each.startswith(word)]

    def _candidates(self, places: list[str], words: list[str], word: str) -> Sequence[str]:
        if not words:
            return sorted(self._options)
        command = words[0]
        if word.startswith("-"):
            return self._options.get(command, ())
        if len(places) == 1 and command in self._with_view:
            return self._deployment.views()
        if len(places) >= 2 and command in self._with_keys:
            return self._deployment.keys(places[1], word)
        return ()


def _quoted(text: str) -> str:
    return shlex.quote(text) if any(each in text for each in _QUOTED) or not text else text
