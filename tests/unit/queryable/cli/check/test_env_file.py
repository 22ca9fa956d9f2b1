"""Files of environment variables. The right values are those of systemd's own parser, in its
generator for environment.d, and of a shell, whose quotes have the same meaning."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable.cli.check.env_file import format_env_file, parse_env_file, read_env_file
from queryable.client.protocol.errors import BadUse
from tests.support.examples import examples

GENERATOR = Path("/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator")

# without a dollar: the generator expands variables, and EnvironmentFile does not
CASES = {
    "plain": ("A=1\nB=two words\n", {"A": "1", "B": "two words"}),
    "blanks": ("  A =  1  \n\tB=\t2\t\n", {"A": "1", "B": "2"}),
    "empty": ("A=\nB=\n", {"A": "", "B": ""}),
    "comments": ("# A=1\n; B=2\n  # C=3\nD=4 # no comment\n", {"D": "4 # no comment"}),
    "no equals sign": ("export\nA=1\n", {"A": "1"}),
    "equals sign in a value": ("A=b=c\n", {"A": "b=c"}),
    "double quotes": ('A="  x  "\nB="y z"\n', {"A": "  x  ", "B": "y z"}),
    "single quotes": ("A='  x \\n \"'\n", {"A": '  x \\n "'}),
    "escapes in double quotes": (r'A="a \"b\" \\ \n"' + "\n", {"A": r'a "b" \ \n'}),
    "quotes with line feeds": ("A='1\n2'\nB=\"3\n4\"\n", {"A": "1\n2", "B": "3\n4"}),
    "quotes in a value": ('A=x"y"z\'\n', {"A": 'x"y"z\''}),
    "parts in quotes": ("A='1' \"2\"\n", {"A": "12"}),
    "text after quotes": ("A='1' 2 \n", {"A": "12"}),
    "continued": ('A=1\\\n2\nB="3\\\n4"\n', {"A": "12", "B": "34"}),
    "escaped": ("A=a\\ b\\\\c\nB=x\\ \n", {"A": "a b\\c", "B": "x "}),
    "twice": ("A=1\nA=2\n", {"A": "2"}),
    "invalid names": ("1A=1\nA-B=2\n=3\nC=4\n", {"C": "4"}),
    "no line feed at the end": ("A=1", {"A": "1"}),
    "carriage returns": ("A=1\r\nB=2\r\n", {"A": "1", "B": "2"}),
    "not ASCII": ("A=Grüße\n", {"A": "Grüße"}),
}

# the generator leaves out empty values, and prints line feeds as \\n
NOT_SHOWN = {"empty", "quotes with line feeds"}


@pytest.mark.parametrize("case", CASES)
def test_the_format_of_environment_files(case: str) -> None:
    text, expected = CASES[case]
    assert parse_env_file(text) == expected


@pytest.mark.skipif(not GENERATOR.exists(), reason="systemd is not installed")
@pytest.mark.parametrize("case", sorted(CASES.keys() - NOT_SHOWN))
def test_systemd_reads_them_alike(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    folder = tmp_path / "environment.d"
    folder.mkdir()
    (folder / "case.conf").write_bytes(text.encode())
    done = subprocess.run(
        [GENERATOR],
        env={"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        capture_output=True, check=True,
    )  # fmt: skip
    script = f"set -a\n{done.stdout.decode()}\nenv -0"
    shown = subprocess.run(["sh", "-c", script], env={}, capture_output=True, check=True)
    found = dict(entry.split("=", 1) for entry in shown.stdout.decode().split("\0") if "=" in entry)
    assert {
        name: value for name, value in found.items() if name in ("A", "B", "C", "D")
    } == expected


@given(st.dictionaries(st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True), st.text(
    st.characters(blacklist_characters="\0\r", blacklist_categories=("Cs",)))))  # fmt: skip
@settings(max_examples=examples(50))
def test_what_is_written_is_read(variables: dict[str, str]) -> None:
    assert parse_env_file(format_env_file(variables)) == variables


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadUse, match=r"Cannot read .*: No such file"):
        read_env_file(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"A=\xff\n")
    with pytest.raises(BadUse, match="not UTF-8"):
        read_env_file(tmp_path / "binary")
    with (tmp_path / "large").open("wb") as file:
        os.truncate(file.fileno(), (1 << 20) + 1)
    with pytest.raises(BadUse, match="more than"):
        read_env_file(tmp_path / "large")
