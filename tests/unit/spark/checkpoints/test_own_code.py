"""The user's own code of a view: what counts as an edit of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from spark.checkpoints.own_code import own_code
from spark.discovery import find_view

FILE = '''
"""How many requests each client has sent."""

from pyspark.sql import functions as F

from spark.raw_topics.texts import TEXTS
from spark.view import View

LEAST = 3


def derive(texts, least: int = LEAST):
    """A row per text."""
    # long texts only
    long = texts.where(F.length("text") > least)
    return long.select(F.col("text").alias("key"), F.lit(f"{LEAST!r:>3}").alias("value"))


VIEW = View(source="texts", decoder=TEXTS, derive=derive)
'''
DIGEST = "0026a0c6f94005d5ad1c83ba18d86df7b8ec194abec7c12db413f45c1a617d56"
"""Of FILE, as the first release with digests wrote it into checkpoints."""

Code = Callable[..., str]


@pytest.fixture
def code(tmp_path: Path) -> Code:
    """A function of the content of a view's file and its name. It returns the view's digest."""

    def digest(text: str, name: str = "view.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()
        return own_code(find_view(str(path)).module)

    return digest


def test_the_digest_is_the_same_in_all_releases(code: Code) -> None:
    assert code(FILE) == DIGEST


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    # long texts only\n", ""),
        ('"""A row per text."""', '"""A row for each\n    text."""'),
        ('    """A row per text."""\n', ""),
        ('"""How many requests each client has sent."""\n', ""),
        ("least: int = LEAST", "least=LEAST"),
        ('F.length("text") > least', "F.length('text')>(least)"),
        ("LEAST = 3", "LEAST = 0x3"),
    ],
)
def test_what_does_not_change_what_code_does_is_no_edit(code: Code, old: str, new: str) -> None:
    assert old in FILE
    assert code(FILE.replace(old, new)) == code(FILE)


def test_another_name_or_folder_of_the_file_is_no_edit(code: Code) -> None:
    assert code(FILE, "other.py") == code(FILE) == code(FILE, "folder/view.py")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEAST = 3", "LEAST = 4"),
        ("LEAST = 3", "LEAST = 3.0"),
        ("LEAST = 3", "LEAST = '3'"),
        (") > least", ") >= least"),
        ("F.length", "F.octet_length"),
        ("LEAST!r:>3", "LEAST!s:>3"),
        ("LEAST!r:>3", "LEAST!r:>4"),
        ('source="texts", ', 'source="texts", output_mode="append", '),
        ("def derive", "@staticmethod\ndef derive"),
    ],
)
def test_what_may_change_results_is_an_edit(code: Code, old: str, new: str) -> None:
    assert old in FILE
    assert code(FILE.replace(old, new)) != code(FILE)


@pytest.mark.parametrize(
    "line",
    [
        "import helpers_NAME",
        "import helpers_NAME.inner.deep",
        "from helpers_NAME.inner import deep",
        "from helpers_NAME.inner.deep import LIMIT",
        "from helpers_NAME import of_deep",
        "def late():\n    import helpers_NAME.inner.deep",
        "if False:\n    from helpers_NAME.inner import deep",
        "from helpers_NAME.inner.near import LIMIT",
    ],
)
@pytest.mark.parametrize("edited", ["", "LIMIT = 2"], ids=["documented", "edited"])
def test_own_modules_that_the_file_imports_count(
    code: Code,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    edited: str,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    # a process imports a module once
    name = f"{abs(hash(request.node.name))}"
    inner = tmp_path / f"helpers_{name}" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").touch()
    (inner.parent / "of_deep.py").write_text("from .inner.deep import LIMIT")
    (inner / "__init__.py").touch()
    (inner / "near.py").write_text("from . import deep\nLIMIT = deep.LIMIT")
    deep = inner / "deep.py"
    deep.write_text("LIMIT = 1")
    if line == "import helpers_NAME":
        (inner.parent / "__init__.py").write_text("from .inner import deep")
    text = f"{FILE}\n{line.replace('NAME', name)}\n"
    before = code(text)
    deep.write_text(edited or '"""Documentation."""\nLIMIT = 1  # at least')
    assert (code(text) != before) == bool(edited)


def test_modules_of_others_do_not_count(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    library = installed / "a_library.py"
    library.write_text("LIMIT = 1")
    monkeypatch.syspath_prepend(installed)
    text = f"{FILE}\nimport json, pyarrow, a_library, spark.joins\n"
    before = code(text)
    library.write_text("LIMIT = 2")
    assert code(text) == before


def test_a_file_that_imports_what_is_missing_has_a_digest(code: Code) -> None:
    lazy = "def late():\n    import not_there.inner\n    from . import sibling\n"
    assert code(f"{FILE}\n{lazy}") != code(FILE)


def test_packages_without_a_file_are_no_error(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: KeyError, because nothing had imported the outer one."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "outer_space" / "inner_space").mkdir(parents=True)
    text = f"{FILE}\ndef late():\n    from outer_space.inner_space import missing\n"
    assert code(text) != code(FILE)


def test_a_package_of_the_user_may_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "installed_views"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "limits.py").write_text("LIMIT = 1")
    (package / "long.py").write_text(f"{FILE}\nfrom installed_views.limits import LIMIT\n")
    monkeypatch.syspath_prepend(package.parent)
    module = find_view("installed_views.long:VIEW").module
    before = own_code(module)
    (package / "limits.py").write_text("LIMIT = 2")
    assert own_code(module) != before


def test_a_compiled_module_counts_as_it_is(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    native = tmp_path / "native_code.so"
    native.write_bytes(b"one")
    text = f"{FILE}\ndef late():\n    import native_code\n"
    before = code(text)
    native.write_bytes(b"two")
    assert code(text) != before


def test_modules_in_an_archive_count(
    code: Code, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "helpers.zip"
    monkeypatch.syspath_prepend(archive)
    digests = []
    for limit in (1, 2):
        with ZipFile(archive, "w") as files:
            files.writestr("zipped/__init__.py", "")
            files.writestr("zipped/limits.py", f"LIMIT = {limit}")
        digests.append(code(f"{FILE}\ndef late():\n    from zipped.limits import LIMIT\n"))
    assert digests[0] != digests[1]
