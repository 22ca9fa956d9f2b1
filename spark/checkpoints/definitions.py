"""Describes Python functions by what they compute, as text: without Spark.

The text of a function has its syntax tree, its default values, and the constants, functions and
classes that it uses, and so on. It does not have comments, docstrings, annotations, positions or
the names of files, and does not depend on Python's version. So it stays the same if a function is
reformatted, documented or moved to another module, and differs if a constant is edited.

Code of libraries is described by its name. A field of a dataclass with the metadata ``of_rule:
False`` is left out, for example the place where something is fetched from, or a password.
"""

from __future__ import annotations

import ast
import linecache
import re
import struct
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache, partial, partialmethod
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_IGNORED = {"annotation", "returns", "type_comment", "type_params", "kind"}
_LIBRARY_FOLDERS = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_COLLECTIONS = (Mapping, list, set, frozenset, re.Pattern, struct.Struct, Enum)
_INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")

IsLibrary = Callable[[str], bool]
"""A function of a module's name: whether the module's code is described by its name only."""


def is_installed(module: str) -> bool:
    """Whether a module belongs to Python or to an installed package."""
    if module == "__main__":
        return False
    found = sys.modules.get(module)
    file = getattr(found, "__file__", None)
    if file is None:
        # Built into Python; other modules that are not imported here come from a pickled function.
        return found is not None
    return bool(_INSTALLED.search(file)) or file.startswith(_LIBRARY_FOLDERS)


def description(value: object, is_library: IsLibrary = is_installed) -> str:
    """The text of a function, or of another value with functions in it."""
    return "\n".join(_Describer(is_library).lines(value))


def details(value: object, is_library: IsLibrary = is_installed) -> str:
    """What ``description`` leaves out, as text in the same form: the values of enums, the contents
    of submodules, the code of decorators, and members of classes other than methods, numbers and
    texts. Empty if there is none. Earlier checkpoints have only the description, so the description
    must stay as it is."""
    describer = _Describer(is_library)
    for _ in describer.lines(value):
        pass
    return "\n".join(describer.details())


class _Describer:
    """Yields one line per function, class and constant, each function and class once."""

    def __init__(self, is_library: IsLibrary) -> None:
        self._is_library = is_library
        self._known: dict[int, int] = {}
        self._kept: list[object] = []  # keeps values alive, so that no id is reused
        self._left_out: deque[Iterator[str]] = deque()

    def details(self) -> Iterator[str]:
        """Yields what ``lines`` has left out. Call it after all of ``lines`` was read."""
        while self._left_out:
            yield from self._left_out.popleft()

    def lines(self, value: Any) -> Iterator[str]:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, Enum):
            yield f"enum {type(value).__qualname__}.{value.name}"
            self._left_out.append(self.lines(value.value))
        elif isinstance(value, re.Pattern):
            yield f"regex {value.pattern!r} {value.flags}"
        elif isinstance(value, struct.Struct):
            yield f"struct {value.format!r}"
        elif isinstance(value, Mapping):
            yield f"mapping {len(value)}"
            for key, item in value.items():
                yield from self.lines(key)
                yield from self.lines(item)
        elif isinstance(value, set | frozenset):
            yield f"set {sorted(map(self._of_set, value))}"
        elif isinstance(value, tuple | list):
            yield f"{type(value).__name__} {len(value)}"
            for item in value:
                yield from self.lines(item)
        elif isinstance(value, ModuleType):
            yield f"module {value.__name__}"
        else:
            yield from self._once(value)

    def _once(self, value: Any) -> Iterator[str]:
        if id(value) in self._known:
            yield f"see {self._known[id(value)]}"
            return
        self._known[id(value)] = len(self._known)
        self._kept.append(value)
        if isinstance(value, partial):
            yield "partial"
            for each in (value.func, value.args, dict(sorted(value.keywords.items()))):
                yield from self.lines(each)
        elif isinstance(value, MethodType):
            yield "method"
            yield from self.lines(value.__func__)
            yield from self.lines(value.__self__)
        elif hasattr(value, "__wrapped__"):
            yield "wrapped"
            yield from self.lines(value.__wrapped__)
            if isinstance(value, FunctionType) and not self._is_library(
                str(value.__globals__.get("__name__"))
            ):
                self._left_out.append(self._function(value))
        elif self._is_library(_module_of(value)):
            yield _library_value(value)
            # A function that a library made for this value, such as a plan from a table.
            yield from self._closure(value)
            if is_dataclass(value) and not isinstance(value, type):
                yield from self._attributes(value)
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            yield from self._class(value)
        else:
            yield from self._object(value)

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield f"function {_tree(function.__code__)}"
        for part in (function.__defaults__, function.__kwdefaults__):
            yield from self.lines(part)
        yield from self._closure(function)
        names = _names(function.__code__)
        for name in sorted(names & function.__globals__.keys()):
            used = function.__globals__[name]
            yield f"global {name}"
            yield from self.lines(used)
            if isinstance(used, ModuleType) and not self._is_library(used.__name__):
                for attribute in sorted(names & vars(used).keys()):
                    yield f"global {name}.{attribute}"
                    yield from self.lines(vars(used)[attribute])
                self._left_out.append(self._submodules(used, names, {used.__name__}))

    def _submodules(self, module: ModuleType, names: set[str], seen: set[str]) -> Iterator[str]:
        """Describes what a function with these names uses from the submodules of a module."""
        for name in sorted(names & vars(module).keys()):
            inner = vars(module)[name]
            if not isinstance(inner, ModuleType) or inner.__name__ in seen:
                continue
            seen.add(inner.__name__)
            if self._is_library(inner.__name__):
                continue
            for attribute in sorted(names & vars(inner).keys()):
                yield f"global {inner.__name__}.{attribute}"
                yield from self.lines(vars(inner)[attribute])
            yield from self._submodules(inner, names, seen)

    def _closure(self, function: Any) -> Iterator[str]:
        for cell in getattr(function, "__closure__", None) or ():
            try:
                content = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            yield from self.lines(content)

    def _class(self, of: type) -> Iterator[str]:
        yield f"class {of.__qualname__}"
        for base in of.__bases__:
            yield from self.lines(base)
        for name, member in sorted(vars(of).items()):
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType):
                # Dataclasses and named tuples generate functions.
                if _source(function.__code__) is not None:
                    yield f"member {name}"
                    yield from self.lines(function)
            elif isinstance(member, str | bytes | int | float | tuple) and name[:2] != "__":
                yield f"member {name}"
                yield from self.lines(member)
        self._left_out.append(self._other_members(of))

    def _other_members(self, of: type) -> Iterator[str]:
        if issubclass(of, Enum):
            members: dict[str, Any] = {
                name: member.value for name, member in of.__members__.items()
            }
        else:
            members = {
                name: found
                for name, member in sorted(vars(of).items())
                if name[:2] != "__" and (found := self._other_member(member)) is not None
            }
        if is_dataclass(of):
            factories = {f"new {each.name}": each.default_factory for each in fields(of)}
            members |= {name: made for name, made in factories.items() if made is not MISSING}
        for name, member in members.items():
            yield f"member {of.__qualname__}.{name}"
            yield from self.lines(member)

    def _other_member(self, member: Any) -> Any:
        """The part to describe of a member that ``_class`` leaves out; None if there is none."""
        if isinstance(member, property):
            return member.fset
        if isinstance(member, cached_property | partialmethod):
            return member.func
        member = getattr(member, "__func__", member)
        if isinstance(member, FunctionType | str | bytes | int | float | tuple):
            return None
        is_described = isinstance(member, _COLLECTIONS) or hasattr(member, "__wrapped__")
        return member if is_described or not self._is_library(_module_of(member)) else None

    def _of_set(self, item: object) -> str:
        """A text that is the same in each process, for any order of a set and any addresses."""
        text = repr(item)
        if "frozenset(" in text or " at 0x" in text:
            return description(item, self._is_library)
        return text

    def _object(self, value: object) -> Iterator[str]:
        yield from self.lines(type(value))
        yield from self._attributes(value)

    def _attributes(self, value: object) -> Iterator[str]:
        slots = (name for of in type(value).__mro__ for name in getattr(of, "__slots__", ()))
        left_out = _left_out(value)
        for name in sorted({*getattr(value, "__dict__", {}), *slots}):
            if hasattr(value, name) and name not in left_out:
                yield f"attribute {name}"
                yield from self.lines(getattr(value, name))


def _left_out(value: object) -> set[str]:
    if not is_dataclass(value):
        return set()
    return {each.name for each in fields(value) if not _is_of_rule(each, value)}


def _is_of_rule(field: Field[Any], value: Any) -> bool:
    of_rule = field.metadata.get("of_rule", True)
    if of_rule == "if set":
        return bool(getattr(value, field.name) != field.default)
    return bool(of_rule)


def _module_of(value: Any) -> str:
    own = value if isinstance(value, type | FunctionType) else type(value)
    return str(getattr(value, "__module__", None) or own.__module__ or "")


def _library_value(value: Any) -> str:
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return f"library {_module_of(value)}.{value.__qualname__}"
    text = "" if is_dataclass(value) else repr(value)
    # The default representation has the address of the object.
    return f"library {type(value).__qualname__} {'' if ' at 0x' in text else text}".rstrip()


def _names(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function, and in the functions within it."""
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*(_names(each) for each in within))


def _tree(code: CodeType) -> str:
    """The syntax tree of a function; its bytecode if the source is not known."""
    source = _source(code)
    return source if source is not None else f"{code.co_code.hex()} {code.co_names}"


def _source(code: CodeType) -> str | None:
    found = _definitions(code.co_filename).get((code.co_name, code.co_firstlineno))
    return None if found is None else ", ".join(found)


@lru_cache(100)
def _definitions(file: str) -> dict[tuple[str, int], list[str]]:
    """The syntax trees of a file's functions, by name and first line. Several lambdas of one line
    are described together."""
    found: dict[tuple[str, int], list[str]] = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(each.lineno for each in (node, *node.decorator_list))
            found.setdefault((node.name, first), []).append(_dump(node))
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(_dump(node))
    return found


def _dump(node: object) -> str:
    """Like ``ast.dump``, but the same for each version of Python."""
    if isinstance(node, list):
        return f"[{', '.join(map(_dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields["body"] = node.body[ast.get_docstring(node, clean=False) is not None :]
    shown = (f"{name}={_dump(part)}" for name, part in fields.items() if part not in (None, []))
    return f"{type(node).__name__}({', '.join(shown)})"
