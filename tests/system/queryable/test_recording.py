"""The picture of the console shows the output of real commands in a terminal."""

from __future__ import annotations

import pytest

from local.errors import LocalError
from tests.system.queryable import recording


def test_a_picture_shows_commands_and_their_output() -> None:
    picture = recording.record(("queryable bench --help",))
    assert picture.startswith("<svg")
    text = picture.replace("&#160;", " ")
    assert "$ queryable bench --help" in text
    assert "python -m bench --only reads" in text
    assert "@font-face" not in picture


def test_a_command_that_fails_is_an_error() -> None:
    with pytest.raises(LocalError, match="No such command"):
        recording.terminal_output("queryable nothing")
