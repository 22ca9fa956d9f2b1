"""Questions on a terminal."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from queryable.cli.adopt.prompts import ask_on_terminal
from queryable.cli.inspection.inference import Confidence, Inference


def test_question_is_repeated_until_the_answer_is_valid(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["sesion", "session", "10 minutes", "10m", "-"])
    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "r") as terminal:
            monkeypatch.setattr(sys, "stdin", terminal)
            os.write(master, "".join(f"{answer}\n" for answer in answers).encode())
            unsure = Inference("window", Confidence.GUESS, "both fit")
            assert ask_on_terminal("t", "store", unsure) == "session"
            assert ask_on_terminal("t", "retention", Inference(None, Confidence.GUESS)) == "10m"
            assert ask_on_terminal("t", "window_size", Inference("1h", Confidence.GUESS)) == "-"
    finally:
        os.close(master)
    output = capsys.readouterr()
    assert output.out == ""
    assert "Unknown store 'sesion'. Use key-value, window, session, versioned, global" in output.err
    assert '"10 minutes"' in output.err
