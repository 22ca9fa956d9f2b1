"""The content of ``view.json``, and the difference between two of them. Pure, without Spark."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

FORMAT = 1
_LATER = ("literals", "function_details", "code_details")
"""Fields of ``Rule`` that earlier releases do not know. They read only the others."""
_MAX_SHOWN = 160  # characters
_OWN_ROWS = re.compile(r"^[ :+-]*(LocalRelation|LogicalRDD)\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a view computes.

    ``plan``: Spark's plan of the view (``plans.plan_text``). ``functions``: digests of the Python
    functions in it. ``code``: a digest of the view's own Python code; code of Spark and of this
    project counts only by its names. ``spark`` and ``release``: the versions of Spark and of this
    project; with another one, the same code may have another plan.
    """

    plan: str
    functions: tuple[str, ...]
    code: str
    spark: str
    release: str
    literals: tuple[str, ...] | None = None
    function_details: str | None = None
    code_details: str | None = None

    @property
    def digest(self) -> str:
        """The digest that names the rule on a command line."""
        more = [each for each in (self.literals, self.function_details) if each]
        if self._has_own_rows:
            more += [each for each in (self.code, self.code_details) if each]
        return digest(json.dumps([self.plan, self.functions, *more]))[:12]

    def difference(self, now: Rule) -> str | None:
        """How ``now`` differs, for a message; None if both are the same rule.

        Plans of the same versions of Spark and of this project are comparable, and are the same if
        a view was only rewritten. After an upgrade only the view's own code is comparable.
        """
        is_same_code = self.code == now.code and not _differ(self.code_details, now.code_details)
        if (self.spark, self.release) != (now.spark, now.release):
            if is_same_code:
                return None
            return (
                f"its code was edited, and its plan cannot be compared, because Spark {self.spark} "
                f"and release {self.release} have become {now.spark} and {now.release}"
            )
        if self.plan != now.plan:
            return _first_difference(self.plan, now.plan)
        if self.literals is not None and now.literals is not None:
            for old, new in zip_longest(self.literals, now.literals, fillvalue=""):
                if old != new:
                    return f"its plan has the text {_shown(new, 0)} instead of {_shown(old, 0)}"
        if self.functions != now.functions or _differ(self.function_details, now.function_details):
            return "a Python function that it runs, or a constant of that, was edited"
        if self._has_own_rows and not is_same_code:
            return "its code was edited, and its plan does not show the rows that it creates"
        return None

    @property
    def _has_own_rows(self) -> bool:
        """Whether the view creates a table (``createDataFrame``, ``VALUES``). A plan shows only the
        columns of such a table."""
        return _OWN_ROWS.search(self.plan) is not None


@dataclass(frozen=True, slots=True)
class ViewIdentity:
    """What a checkpoint belongs to. ``state_store``: the class of Spark's state store.
    ``state_partitions``: Spark keeps their number for the life of the checkpoint."""

    view: str
    topic: str
    sources: tuple[str, ...]
    state_version: int
    state_store: str
    state_partitions: int
    rule: Rule


def to_json(identity: ViewIdentity) -> str:
    document = asdict(identity)
    later = {name: document["rule"].pop(name) for name in _LATER}
    return json.dumps({"format": FORMAT, **document, "more_of_rule": later}, indent=1)


def from_json(text: str) -> ViewIdentity:
    """Raises ValueError if the text is not a ``view.json`` of this format."""
    try:
        found: Mapping[str, Any] = json.loads(text)
        if found["format"] != FORMAT:
            raise ValueError(f"it has format {found['format']}, and this release reads {FORMAT}")
        rule = {**found["rule"], **found.get("more_of_rule", {})}
        for name in ("functions", "literals"):
            if rule.get(name) is not None:
                rule[name] = tuple(rule[name])
        rest = {name: found[name] for name in ViewIdentity.__slots__ if name != "rule"}
        return ViewIdentity(**{**rest, "sources": tuple(rest["sources"])}, rule=Rule(**rule))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _differ(before: str | None, now: str | None) -> bool:
    """Whether both are known, and not the same."""
    return None not in (before, now) and before != now


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _first_difference(before: str, now: str) -> str:
    lines = difflib.ndiff(before.splitlines(), now.splitlines())
    changed = [line for line in lines if line[:2] in ("- ", "+ ")]
    old = next((line[2:].strip() for line in changed if line[0] == "-"), "")
    new = next((line[2:].strip() for line in changed if line[0] == "+"), "")
    same = next(
        (index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    start = max(0, same - 40)
    return f"its plan has {_shown(new, start)} instead of {_shown(old, start)}"


def _shown(line: str, start: int) -> str:
    part = line[start : start + _MAX_SHOWN]
    before = "…" if start else ""
    return f"`{before}{part}{'…' if len(line) > start + _MAX_SHOWN else ''}`"
