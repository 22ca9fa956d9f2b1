"""Errors name commands and options, not paths and parameters of the API."""

from __future__ import annotations

import pytest

from queryable import BadRequest, BadUse, NotFound
from queryable.cli.error_texts import error_text
from queryable.cli.exit_codes import advice


@pytest.mark.parametrize(
    ("code", "detail", "text"),
    [
        (
            "wrong-store",
            "View bookings has windows, not one value per key: use "
            "/views/bookings/keys/{key}/windows.",
            "View bookings has windows, not one value per key: use `queryable windows bookings "
            "KEY`. [wrong-store]",
        ),
        (
            "wrong-store",
            "View bookings has a window store: GET /views/bookings/windows.",
            "View bookings has a window store: use `queryable windows bookings`. [wrong-store]",
        ),
        (
            "wrong-store",
            "View orders@2 has a key-value store: GET /views/orders@2/keys.",
            "View orders@2 has a key-value store: use `queryable scan orders@2`. [wrong-store]",
        ),
        (
            "bad-parameter",
            "order=sideways: it is one of asc, desc.",
            "--order sideways: it is one of asc, desc. [bad-parameter]",
        ),
        (
            "bad-parameter",
            "max_lag: '-3' is not a whole number.",
            "--max-lag: '-3' is not a whole number. [bad-parameter]",
        ),
        (
            "bad-parameter",
            "by is missing: a field with numbers.",
            "--by is missing: a field with numbers. [bad-parameter]",
        ),
        (
            "bad-parameter",
            "The values of words are int64: omit by.",
            "The values of words are int64: omit --by. [bad-parameter]",
        ),
        (
            "bad-parameter",
            "from and to are for windows and sessions, not for words.",
            "--from and --to are for windows and sessions, not for words. [bad-parameter]",
        ),
        (
            "unknown-parameter",
            "Unknown parameter 'as_of'. Known parameters: encoding, route.",
            "--as-of is not for this view or query. [unknown-parameter]",
        ),
        (
            "view-not-found",
            "View 'a' does not exist. GET /views lists the views.",
            "View 'a' does not exist. `queryable views` lists them. [view-not-found]",
        ),
        (
            "no-such-resource",
            "Unknown path '/x/views'. GET /views lists the views and their paths.",
            "Unknown path '/x/views'. [no-such-resource]",
        ),
        ("key-not-found", "No value by max_lag.", "No value by max_lag. [key-not-found]"),
    ],
)
def test_texts_of_the_api(code: str, detail: str, text: str) -> None:
    assert error_text(BadRequest(code, detail)) == text
    assert error_text(NotFound(code, detail)) == text


def test_texts_of_the_client() -> None:
    assert error_text(BadUse("key_from and key_to cannot be combined with a key.")) == (
        "--key-from and --key-to cannot be combined with a key."
    )
    assert error_text(BadUse("timeout=-1 is invalid: it must be greater than 0.")) == (
        "--timeout -1 is invalid: it must be greater than 0."
    )
    assert error_text(BadUse("Cannot read the token file /run/token_file: No such file.")) == (
        "Cannot read the token file /run/token_file: No such file."
    )
    assert error_text(BadUse("Cannot read token_file.toml, so give a token_file.")) == (
        "Cannot read token_file.toml, so give a --token-file."
    )
    assert error_text(BadUse("KEY 'as_of' is not a valid int64.")) == (
        "KEY 'as_of' is not a valid int64."
    )


def test_an_unknown_path_asks_for_the_url() -> None:
    """Commands send paths that exist: the URL has a part too many."""
    unknown = NotFound("no-such-resource", "Unknown path '/x/views'. GET /views lists the views.")
    assert advice(unknown).startswith("Is this the right URL?")
    assert not advice(NotFound("no-such-resource", "Topic orders does not allow appending."))
