"""Tests of references in the [kafka] table: resolved late, and no error has a value."""

from pathlib import Path

import pytest

from model.kafka.config_providers import (
    MAX_FILE_BYTES,
    check_references,
    has_reference,
    parse_properties,
    resolve,
)
from model.problems import ConfigurationError
from model.views_file import parse_views

# the text of a properties file -> its entries; tests/spark checks them with Java's own parser
PROPERTIES = {
    "a=1\nb : 2\n c\t3\n": {"a": "1", "b": "2", "c": "3"},
    "# no\n! no\n\n  # no\na=#1\n": {"a": "#1"},
    "a=1 2  \r\nb=\r\nc": {"a": "1 2  ", "b": "", "c": ""},
    "a = x\\\n   y\\\n\n": {"a": "xy"},
    "a=x\\\\\nb=2": {"a": "x\\", "b": "2"},
    'a\\=b\\ c\\:=d\\te\\q\\"': {"a=b c:": 'd\teq"'},
    "a=\\u00e9\\ud83d\\ude00é": {"a": "é😀é"},
    "a==1\nb=:=2": {"a": "=1", "b": ":=2"},
    "a=1\na=2": {"a": "2"},
    "a=1\\": {"a": "1"},
}


@pytest.mark.parametrize("text", PROPERTIES)
def test_properties_files(text: str) -> None:
    assert parse_properties(text) == PROPERTIES[text]


def test_references_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text("user = alice\npassword=pa:ss=w\\u00f6rd\n")
    (tmp_path / "token").write_text("to ken\r\n")
    table = {
        "plain": "a$b{c} ${d}",
        "user": f"${{file:{tmp_path}/kafka.properties:user}}",
        "both": f"<${{env:NAME}}|${{file:{tmp_path}/kafka.properties:password}}>",
        "whole": f"${{file:{tmp_path}/token}}",
    }
    resolved = resolve(table, open, {"NAME": "n"})
    assert resolved == {
        "plain": "a$b{c} ${d}",
        "user": "alice",
        "both": "<n|pa:ss=wörd>",
        "whole": "to ken",
    }
    assert [name for name in table if has_reference(table[name])] == ["user", "both", "whole"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${env:UNSET}", "the environment variable UNSET is not set"),
        ("${env:EMPTY}", "the environment variable EMPTY is not set"),
        ("${file:/DIR/none}", "cannot read /DIR/none: No such file or directory"),
        ("${file:/DIR}", "cannot read /DIR: Is a directory"),
        ("${file:/DIR/empty}", "/DIR/empty is empty"),
        ("${file:/DIR/good:other}", "/DIR/good has no value for other"),
        ("${file:/DIR/good:empty}", "/DIR/good has no value for empty"),
        ("${file:/DIR/bytes}", "/DIR/bytes is not a text or properties file"),
        ("${file:/DIR/half:key}", "/DIR/half is not a text or properties file"),
        ("${file:/DIR/large}", f"/DIR/large has more than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_errors_name_the_setting_and_what_is_missing(
    value: str, message: str, tmp_path: Path
) -> None:
    files = {"empty": b"\n", "good": b"key=s3cret\nempty=", "bytes": b"s3cret\xff"}
    files |= {"half": b"key=s3cret\\ud800", "large": b"s3cret" * MAX_FILE_BYTES}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    value, message = (text.replace("/DIR", str(tmp_path)) for text in (value, message))
    with pytest.raises(ConfigurationError) as raised:
        resolve({"sasl.password": value}, open, {"EMPTY": ""})
    assert str(raised.value) == f"[kafka] sasl.password: {message}"
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    "value",
    [
        *("${vault:a:b}", "${env:}", "${env:A-B}", "${env:a:b}", "${file:}", "${file:relative}"),
        *("${file:/a/}", "${file:/a:}", '${file:/a":b}', "${:x}", "x${file:~/a}"),
    ],
)
def test_other_forms_are_refused_when_the_file_is_read(value: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a known reference"):
        check_references("sasl.password", value)
    view = '[views.a]\ntopic = "a"\nkey = "string"\nvalue = "json"\n'
    with pytest.raises(ConfigurationError, match=r"line 6, \[kafka\], sasl\.password: \$\{|x\$"):
        parse_views(f"{view}[kafka]\n'sasl.password' = '{value}'")


def test_a_deployment_keeps_references_and_hides_the_table() -> None:
    view = '[views.a]\ntopic = "a"\nkey = "string"\nvalue = "json"\n'
    deployment = parse_views(
        f'{view}[kafka]\n"sasl.password" = "s3cret"\n"sasl.username" = "${{env:NO_SUCH}}"'
    )
    assert deployment.kafka["sasl.username"] == "${env:NO_SUCH}"
    assert "s3cret" not in repr(deployment)
