"""The lines of tables and keys, compared with documents that say their own lines."""

import tomllib
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.toml_lines import TomlErrors, line_of, lines_of, toml_key, view_table

DOCUMENT = '''\
# line 1
[views."orders@2"]   # line 2
line = 3
"topic" = "[views.no]"
text = """
[views.wrong]
key = 7
"""
line9 = 9

[views.a.b]
list = [
  "]",  # ]
  { x = 14 },
]
'li.ne' = 16
deep.er.line = 17
inline = { from = "x", fields = { a = "b" } }
[views.a]
line = 20
[[tables]]
literal = \'\'\'
x = "
\'\'\'
line25 = 25
'''


def test_tables_keys_and_values_of_several_lines() -> None:
    lines = lines_of(DOCUMENT)
    assert lines["views", "orders@2"] == 2
    assert lines["views", "orders@2", "line"] == 3
    assert lines["views", "orders@2", "line9"] == 9
    assert lines["views", "a", "b"] == 11
    assert lines["views", "a", "b", "li.ne"] == 16
    assert lines["views", "a", "b", "deep", "er", "line"] == 17
    assert lines["views", "a"] == 19
    assert lines["views", "a", "line"] == 20
    assert lines["tables",] == 21
    assert lines["tables", "line25"] == 25
    assert ("views", "wrong") not in lines
    assert ("views", "no") not in lines


def test_a_key_of_an_inline_table_is_in_the_line_of_the_table() -> None:
    lines = lines_of(DOCUMENT)
    assert line_of(lines, ("views", "a", "b", "inline", "fields", "a")) == 18
    assert line_of(lines, ("views", "a", "missing")) == 19
    assert line_of(lines, ("missing",)) == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_other_line_ends_and_separators(newline: str) -> None:
    text = newline.join(["", "[a]", "x = '\u2028 \x85'", "", "[b]  # [c]", "y=1"])
    lines = lines_of(text)
    assert lines == {("a",): 2, ("a", "x"): 3, ("b",): 5, ("b", "y"): 6}


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
_NAMES = st.lists(st.sampled_from(["a", '"b.c"', "'d]'", '"e\\"#"']), min_size=1, max_size=2)


def _basic(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in text)
    return f'"{escaped}"'


def _multi(text: str) -> str:
    return f'"""{_basic(text)[1:-1]}\n[x]\ny = 1 # """'


_VALUES = st.one_of(
    _TEXT.map(_basic),
    _TEXT.map(_multi),
    st.lists(_TEXT.map(_multi), max_size=2).map(lambda each: "[ # [\n" + ",\n".join(each) + "\n]"),
    st.just("{ x = 1, y = [1, 2] }"),
    st.just("'''\n'k' = \"''''"),
)


@given(st.lists(st.tuples(_NAMES, st.lists(st.tuples(_NAMES, _VALUES), max_size=3)), max_size=3))
def test_any_document(tables: list[tuple[list[str], list[tuple[list[str], str]]]]) -> None:
    """Each key says its line: its value is replaced by the line where it was written."""
    rows: list[str] = []
    wanted: dict[tuple[str, ...], int] = {}
    for number, (table, keys) in enumerate(tables):
        unique = [f"t{number}", *table]
        rows += ["", f"[{'.'.join(unique)}] # comment"]
        for place, (key, value) in enumerate(keys):
            names = [f"k{place}", *key]
            wanted[_plain(unique + names)] = sum(row.count("\n") + 1 for row in rows) + 1
            rows.append(f"{' . '.join(names)} = {value}  # = [")
    text = "\n".join(rows)
    tomllib.loads(text)
    lines = lines_of(text)
    assert {path: lines[path] for path in wanted} == wanted


def _plain(names: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    for name in names:
        document: dict[str, Any] = tomllib.loads(f"{name} = 1")
        found += document
    return tuple(found)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("orders", "[views.orders]"),
        ("init.dots_x", '[views."init.dots_x"]'),
        ("orders@2", '[views."orders@2"]'),
        ("a b", '[views."a b"]'),
        ('"é', '[views."\\"é"]'),
        ("", '[views.""]'),
    ],
)
def test_the_name_of_a_view_s_table_can_be_copied(name: str, table: str) -> None:
    assert view_table(name) == table
    assert tomllib.loads(f"{table}\n") == {"views": {name: {}}}


def test_errors_quote_the_names_of_tables() -> None:
    error = TomlErrors('[views."init.dots_x"]\nkey = 1\n', "views.toml").error
    message = str(error(("views", "init.dots_x"), "key", "wrong"))
    assert message == 'views.toml, line 2, [views."init.dots_x"], key: wrong'


@pytest.mark.parametrize(
    "name", ["a", "", "a b", 'q"\\', "\x00\t\n\x1b", "\x7f\x80\x9f", "é\U0001f600"]
)
def test_a_key_is_valid_without_control_characters(name: str) -> None:
    key = toml_key(name)
    assert tomllib.loads(f"{key} = 1") == {name: 1}
    assert not any(unicodedata.category(character) == "Cc" for character in key)
