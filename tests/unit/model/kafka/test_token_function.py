"""Tests of tokens from a function: what it may return, and what the errors say."""

from __future__ import annotations

import time
from typing import Any

import pytest

from model.kafka.token_function import NoTokenError, Token, TokenFunction
from model.problems import ConfigurationError

SECRET = "s3cret-token"
END = time.time() + 3600
_result: Any = None


def answer() -> Any:
    if isinstance(_result, Exception):
        raise _result
    return _result


def returning(result: Any, monkeypatch: pytest.MonkeyPatch) -> TokenFunction:
    monkeypatch.setattr(f"{__name__}._result", result)
    return TokenFunction(f"{__name__}:answer")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (("t", END), Token("t", END)),
        (("t", int(END)), Token("t", int(END))),
        (("t", END, "me"), Token("t", END, "me")),
        (("t", END, "me", {"cluster": "a"}), Token("t", END, "me", (("cluster", "a"),))),
    ],
)
def test_a_token(result: Any, expected: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    function = returning(result, monkeypatch)
    assert function.token() == expected
    called = function.oauth_cb("")
    assert called == (
        expected.text, expected.expiry, expected.principal, dict(expected.extensions)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (SECRET, "it must return (token, end in s since 1970)"),
        ((SECRET,), "it must return (token, end in s since 1970)"),
        ([SECRET, END], "it must return (token, end in s since 1970)"),
        ((SECRET, END, "", {}, 1), "it must return (token, end in s since 1970)"),
        ((SECRET.encode(), END), "the token is not a text but bytes"),
        (("", END), "the token is empty"),
        ((f"{SECRET}\n", END), "the token is not printable ASCII of at most 65536 bytes"),
        ((SECRET * 10_000, END), "the token is not printable ASCII of at most 65536 bytes"),
        ((SECRET, None), "the end of the token is not a number"),
        ((SECRET, True), "the end of the token is not a number"),
        ((SECRET, float("nan")), "the end of the token is not a number"),
        ((SECRET, END * 1000), "the end of the token is in s since 1970, not in ms"),
        ((SECRET, 3600), "the token has expired"),
        ((SECRET, END, None), "the principal is not a text but NoneType"),
        ((SECRET, END, "", {"a": 1}), "the extensions are not a dictionary of texts"),
        ((SECRET, END, "", None), "the extensions are not a dictionary of texts"),
        (OSError("no route"), "OSError: no route"),
        (OSError("x" * 9999), f"OSError: {'x' * 291}…"),
    ],
)
def test_what_is_no_token(result: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = returning(result, monkeypatch)
    for call in (function.token, lambda: function.oauth_cb("")):
        with pytest.raises(NoTokenError) as raised:
            call()
        text = f"no OAuth token from {__name__}:answer ([kafka] sasl.oauth.token): {reason}"
        assert str(raised.value) == text
        assert raised.value.__cause__ is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("answer", "'answer' does not have the form \"package.module:function\""),
        (f"{__name__}:SECRET", f"{__name__}:SECRET is not a function"),
        (f"{__name__}:missing", f"{__name__}:missing cannot be imported: "),
        ("no_such_module:token", "Put its folder on PYTHONPATH"),
    ],
)
def test_what_is_no_function(path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        TokenFunction(path)
    assert str(raised.value).startswith("[kafka] sasl.oauth.token: ")
    assert reason in str(raised.value)
