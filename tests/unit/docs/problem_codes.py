"""The codes of all problems that the product can send, found in its sources: of each class below
`Problem`, whoever defines it. Codes in local variables are not found."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from model import problems
from model.problems import Problem

_ROOT = Path(__file__).parents[3]
_CLASS = re.compile(r"^class (\w+)\(([^)]+)\):\n((?:(?:    .*)?\n)*)", re.M)
_CODE = r'\s*("[a-z-]+"|[A-Z_]+\b|[\w.]+\.[a-z]+,)'  # a text, a constant or an attribute
_OWN_CODE = re.compile(rf"super\(\)\.__init__\({_CODE}")


def codes_by_status() -> dict[int, set[str]]:
    found: defaultdict[int, set[str]] = defaultdict(set)
    for name, codes in codes_by_class().items():
        found[problem_classes()[name].status] |= codes
    return found


@cache
def codes_by_class() -> dict[str, set[str]]:
    """By the name of the class. Those of `Problem` have a status of their own each."""
    classes = problem_classes()
    made = re.compile(rf"(?<!class )\b({'|'.join(classes)})(?:\.__init__\(self,|\(){_CODE}")
    found: defaultdict[str, set[str]] = defaultdict(set)
    own: dict[str, set[str]] = {}  # of classes whose constructor takes no code
    for source in _sources():
        for name, code in made.findall(source):
            found[name] |= _values(code, source)
        for name, _, body in _CLASS.findall(source):
            if name in classes and (codes := _OWN_CODE.findall(body)):
                own[name] = set().union(*(_values(code, source) for code in codes))
    return {**found, **own}


@cache
def problem_classes() -> dict[str, type[Problem]]:
    """Each class below `Problem` by its name, with itself or its nearest base in model/problems.py,
    which has its status."""
    found: dict[str, type[Problem]] = {"Problem": Problem}
    size = 0
    while size < len(found):
        size = len(found)
        for source in _sources():
            for name, bases, _ in _CLASS.findall(source):
                for base in re.findall(r"\w+", bases):
                    if base in found:
                        found.setdefault(name, getattr(problems, name, found[base]))
    return found


def _values(code: str, source: str) -> set[str]:
    """The code, or those that a constant or an attribute of this name has."""
    if code.startswith('"'):
        return {code.strip('"')}
    everywhere = "\n".join(_sources())
    if code.endswith(","):
        name = code.rstrip(",").rpartition(".")[2]
        return set(re.findall(rf'\b{name}="([a-z]+(?:-[a-z]+)+)"', everywhere))
    definition = re.compile(rf'^{code} = "([a-z-]+)"$', re.M)
    return set(definition.findall(source) or definition.findall(everywhere))


@cache
def _sources() -> list[str]:
    folders = [_ROOT / name for name in ("backend", "model")]
    return [path.read_text() for folder in folders for path in sorted(folder.rglob("*.py"))]
