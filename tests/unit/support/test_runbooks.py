"""What a command prints, and what the page shows of it."""

from __future__ import annotations

import pytest

from tests.support.prometheus.runbooks import output_matches


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ('{"lag":12,"partition":0}', '{"lag":4711,"partition":0}\n'),
        ("0.31", "12.5"),
        ("000", "0"),
        ("bytes 1.2e+07", "bytes 999"),
        ("…", ""),
        ("first\n…\nlast", "first\nsecond\nthird\nlast"),
        ("first\n…\nlast", "first\nlast"),
        ("size  free", "size      free\r\n"),
        ("error: … refused", "error: connection to b7 refused"),
        ("10.0.0.1:8081 is b1", "127.0.0.1:24100 is b1"),
    ],
)
def test_what_a_page_may_show_of_it(shown: str, printed: str) -> None:
    assert output_matches(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("0", "1"),
        ("7", "0"),
        ("7", "0.0"),
        ("b1", "b2"),
        ("200 OK", "200 ok"),
        ("one line", "one line\nand another"),
        ("one line\n…", "another line"),
        ("", "text"),
        ("text", ""),
        ("a.c", "abc"),
    ],
)
def test_what_is_not_what_the_page_shows(shown: str, printed: str) -> None:
    assert not output_matches(shown, printed)
