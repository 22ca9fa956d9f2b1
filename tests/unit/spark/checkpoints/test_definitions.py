"""The text of Python functions: which edits change it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from model.derive.derivation import Join
from model.derive.expressions import Literal
from model.derive.types import STRING
from model.rows.reader import RowRule
from spark.checkpoints.definitions import description, details
from spark.formats.decoders import TextDecoder
from spark.formats.registry import Registry
from spark.raw_topics.flights import FLIGHTS
from spark.views import VIEWS

SOURCE = '''
"""A module."""

import functools
import re
from dataclasses import dataclass

import orjson

WORD = re.compile(r"[a-z]+")
GAP = 30
UNUSED = 1


@dataclass(frozen=True)
class Bounds:
    """Bounds."""

    before: int

    def late(self, time):
        return time > self.before


def helper(value: bytes, most=3) -> str:
    """Not used for results."""
    return WORD.findall(orjson.loads(value))[:most]


@functools.lru_cache(10)
def cached(number):
    return number * GAP


def rule(value, bounds=Bounds(5)):
    # a comment
    return [each for each in helper(value) if not bounds.late(cached(len(each)))]


def with_lambda(value):
    return sorted(value, key=lambda each: -each)


def _unrelated():
    return 7
'''


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., ModuleType]:
    """`load((old, new), …)`: the module with these edits, each time in another file."""
    count = 0

    def make(*edits: tuple[str, str], text: str = SOURCE) -> ModuleType:
        nonlocal count
        count += 1
        for old, new in edits:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file = tmp_path / f"module_{count}.py"
        file.write_text(text)
        spec = importlib.util.spec_from_file_location(f"module_{count}", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # dataclasses look their module up
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(__import__("sys").modules, module.__name__, module)
            spec.loader.exec_module(module)
        return module

    return make


@pytest.mark.parametrize(
    "edit",
    [
        ("    # a comment\n", "\n\n    # another\n"),
        ('    """Not used for results."""\n', ""),
        ('"""Bounds."""', '"""The bounds of a time."""'),
        ("value: bytes, most=3) -> str", "value, most=3)"),
        ("UNUSED = 1", "UNUSED = 2"),
        ("return 7", "return 8"),
        ("import re\n", "import re\nimport sys\n"),
        ("[each for each in helper(value) if", "[\n        each for each in helper(value)\n if"),
    ],
)
def test_an_edit_that_changes_no_result_changes_no_text(
    load: Callable[..., ModuleType], edit: tuple[str, str]
) -> None:
    assert description(load(edit).rule) == description(load().rule)


@pytest.mark.parametrize(
    "edit",
    [
        ('"[a-z]+"', '"[A-Za-z]+"'),
        ('re.compile(r"[a-z]+")', 're.compile(r"[a-z]+", re.I)'),
        ("GAP = 30", "GAP = 31"),
        ("most=3", "most=4"),
        ("Bounds(5)", "Bounds(6)"),
        ("time > self.before", "time >= self.before"),
        ("number * GAP", "number + GAP"),
        ("orjson.loads(value)", "orjson.dumps(value)"),
        ("if not bounds", "if bounds"),
    ],
)
def test_an_edit_of_a_rule_changes_the_text(
    load: Callable[..., ModuleType], edit: tuple[str, str]
) -> None:
    assert description(load(edit).rule) != description(load().rule)


RICH = """
import re
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, lru_cache, wraps


class Color(Enum):
    RED = "red"


@dataclass
class Options:
    names: list = field(default_factory=lambda: ["first"])


def doubled(function):
    @wraps(function)
    def inner(value):
        return 2 * function(value)
    return inner


class Rules:
    WORDS = {"a", "the"}
    CODES = ["one"]
    NAMES = {"key": 1}
    PATTERN = re.compile("[a-z]+")
    COLOR = Color.RED
    STATES = {}

    class Inner:
        LIMIT = 100

    @cached_property
    def half(self):
        return 50

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, size):
        self.other = 11

    @lru_cache(3)
    def third(self):
        return 33


@doubled
def rule(value):
    return Rules(), Options()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"red"', '"dark red"'),
        ('"first"', '"second"'),
        ("2 * ", "3 * "),
        ('"the"', '"this"'),
        ('["one"]', '["two"]'),
        ('"key": 1', '"key": 2'),
        ("[a-z]", "[A-Z]"),
        ("COLOR = Color.RED", "COLOR = None"),
        ("STATES = {}", "STATES = {1: 2}"),
        ("LIMIT = 100", "LIMIT = 101"),
        ("return 50", "return 51"),
        ("self.other = 11", "self.other = 12"),
        ("return 33", "return 34"),
    ],
)
def test_an_edit_of_a_detail_changes_only_the_details(
    load: Callable[..., ModuleType], old: str, new: str
) -> None:
    assert RICH.count(old) == 1
    one, same, other = load(text=RICH), load(text=RICH), load(text=RICH.replace(old, new))
    assert details(one.rule) == details(same.rule) != details(other.rule)
    # checkpoints of earlier releases have this text
    assert description(one.rule) == description(other.rule)


def test_simple_rules_have_no_details(load: Callable[..., ModuleType]) -> None:
    assert details(load().rule) == ""


def test_what_a_submodule_has_is_a_detail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    texts = []
    for number, limit in enumerate((1, 1, 2)):
        package = f"package{number}"
        inner = tmp_path / package / "inner"
        inner.mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
        (inner / "__init__.py").write_text(f"from {package}.inner import deep")
        (inner / "deep.py").write_text(f"LIMIT = {limit}\ndef chosen(n): return n < LIMIT")
        code = f"import {package}.inner\ndef rule(n): return {package}.inner.deep.chosen(n)"
        (tmp_path / package / "rule.py").write_text(code)
        rule = importlib.import_module(f"{package}.rule").rule
        texts.append(details(rule).replace(package, "package"))
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.slow
def test_a_text_is_the_same_in_each_process() -> None:
    program = (
        "from spark.checkpoints.definitions import description, details\n"
        "class Item: pass\n"
        "class Rule:\n"
        "    WORDS = {'a', 'b', 'c', frozenset({'d', 'e', 'f'})}\n"
        "ITEMS = {frozenset({'d', 'e', 'f'}), ('x', frozenset({'y', 'z'})), Item()}\n"
        "def rule(): return Rule, ITEMS\n"
        "print(description(rule), details(rule))"
    )
    texts = [
        subprocess.check_output([sys.executable, "-c", program], env={**os.environ, **seed})
        for seed in ({"PYTHONHASHSEED": str(number)} for number in range(1, 4))
    ]
    assert len({*texts}) == 1


def test_lambdas_closures_and_partials_are_described(load: Callable[..., ModuleType]) -> None:
    one, other = load(), load(("-each)", "each)"))
    assert description(one.with_lambda) != description(other.with_lambda)
    assert description(partial(one.rule, most=1)) != description(partial(one.rule, most=2))

    def inside(number: int) -> Callable[[int], int]:
        return lambda value: value + number

    assert description(inside(1)) == description(inside(1))
    assert description(inside(1)) != description(inside(2))
    # also if only the name of the function counts
    texts = [description(inside(number), lambda module: module == __name__) for number in (1, 2)]
    assert "library" in texts[0]
    assert texts[0] != texts[1]


def test_a_function_that_calls_itself_has_an_end() -> None:
    assert "function" in description(_factorial)


def _factorial(number: int) -> int:
    return 1 if number == 0 else number * _factorial(number - 1)


def test_code_of_libraries_is_described_by_name() -> None:
    assert description(re.sub) == "library re.sub"
    assert description(date(2026, 1, 2)) == "library date datetime.date(2026, 1, 2)"
    texts = [description(_Point(x), lambda module: module == __name__) for x in (1, 2)]
    assert texts == ["library _Point\nattribute x\nint 1", "library _Point\nattribute x\nint 2"]


@dataclass
class _Point:
    x: int


@pytest.mark.parametrize("library", ["", __name__])
def test_where_a_schema_comes_from_is_no_part_of_a_rule(library: str) -> None:
    def text(value: object) -> str:
        return description(value, lambda module: module in (library, Registry.__module__))

    first = _Framed("order", Registry("http://a", "me:old"))
    assert text(first) == text(_Framed("order", Registry("https://b", "me:new")))
    assert text(first) != text(_Framed("total", Registry("http://a", "me:old")))


def test_a_field_that_is_not_set_is_no_part_of_a_rule() -> None:
    def text(rows: RowRule | None) -> str:
        return description(Join("j", "topic", Literal("k", STRING), (), rows))

    # as in checkpoints of before
    assert "attribute rows" not in text(None)
    assert "attribute source" in text(None)
    assert "attribute unwrap" in text(RowRule("debezium"))


@dataclass(frozen=True, slots=True)
class _Framed:
    schema: str
    registry: Registry


def test_a_text_has_no_addresses() -> None:
    for view in VIEWS.values():
        assert " at 0x" not in description((view.derive, view.decoder))
    assert "str 'dep_delay'" in description(FLIGHTS), "a field of its rules"


def test_a_bound_of_texts_is_a_part_of_a_rule() -> None:
    def of(decoder: TextDecoder) -> str:
        return description(decoder, lambda module: module.startswith("spark"))

    # as in checkpoints of before
    assert of(TextDecoder()) == "library TextDecoder"
    assert of(TextDecoder(max_bytes=5)) != of(TextDecoder(max_bytes=6))
