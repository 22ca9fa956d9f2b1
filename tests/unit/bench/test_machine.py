"""The interpreter, and how it was built."""

from __future__ import annotations

import platform
import sys
from typing import Any

import pytest

from bench.machine import describe_interpreter, interpreter, optimizations

_PLAIN = {"CONFIG_ARGS": "'--prefix=/usr' '--enable-shared'", "PY_CFLAGS": "-g -O3 -Wall"}


@pytest.mark.parametrize(
    ("declared", "pgo", "lto"),
    [
        (_PLAIN, False, False),
        ({"CONFIG_ARGS": "'--enable-optimizations' '--with-lto'"}, True, True),
        ({"CONFIG_ARGS": "'--with-lto=thin'"}, False, True),
        ({"CONFIG_ARGS": "'--enable-optimizations=no' '--with-lto=no'"}, False, False),
        ({"CONFIG_ARGS": "'--without-lto' '--disable-optimizations'"}, False, False),
        ({**_PLAIN, "PY_CORE_CFLAGS": "-fprofile-use -flto -O3"}, True, True),
        ({**_PLAIN, "PY_CORE_LDFLAGS": "-flto=auto"}, False, True),
    ],
)
def test_optimizations_are_in_the_options_or_in_the_flags(
    declared: dict[str, str], pgo: bool, lto: bool
) -> None:
    assert optimizations(declared) == {"pgo": pgo, "lto": lto}


def test_this_interpreter() -> None:
    found = interpreter()
    assert found["path"] == sys.executable
    assert platform.python_version() in describe_interpreter(found)
    assert {found["pgo"], found["lto"]} <= {True, False, None}


def test_a_build_that_declares_another_one_is_unknown() -> None:
    found: dict[str, Any] = {"implementation": "CPython", "version": "3.13.5"}
    assert describe_interpreter({**found, "pgo": True, "lto": False}) == (
        "CPython 3.13.5, built with PGO and without LTO"
    )
    assert describe_interpreter({**found, "pgo": None, "lto": None}).endswith(
        "CPython 3.13.5, built in an unknown way"
    )
