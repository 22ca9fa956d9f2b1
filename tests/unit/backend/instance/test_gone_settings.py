"""Variables that were settings once end the start with a message that says what to do."""

import re
from dataclasses import asdict

import pytest

from backend.ingest.lifecycle.recovery import RecoveryPolicy
from backend.instance.constants import Constants
from backend.instance.gone_settings import _GONE, gone_settings
from backend.instance.settings import Settings, load_settings
from backend.storage.options import Tuning
from local.errors import LocalError
from local.settings import StackSettings
from local.stack.preflight import check_machine
from model.problems import ConfigurationError

_NUMBERS = {
    **asdict(Constants()),
    **asdict(RecoveryPolicy(0)),
    "background_jobs": Tuning().background_jobs,
}


@pytest.mark.parametrize("name", sorted(_GONE))
def test_the_start_ends(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigurationError, match=rf"^{name} is no longer a setting: \w.*\.$"):
        load_settings()


def test_all_are_named_also_if_they_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("queryable_kiqr", "false")
    monkeypatch.setenv("QUERYABLE_ADVERTISED_HOST", "")
    with pytest.raises(ConfigurationError, match=r"ADVERTISED_HOST is no .*\. QUERYABLE_KIQR is"):
        load_settings()


def test_the_local_stack_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYABLE_DRAIN_TIME", "3")
    with pytest.raises(LocalError, match="QUERYABLE_DRAIN_TIME is no longer a setting"):
        check_machine(StackSettings(), {})


def test_they_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        f"QUERYABLE_{name.upper()}"
        for name in (*Settings.model_fields, *StackSettings.model_fields)
    }
    assert names.isdisjoint(_GONE)


@pytest.mark.parametrize(("name", "number"), _NUMBERS.items())
def test_the_message_has_the_fixed_number(name: str, number: float) -> None:
    variable = f"QUERYABLE_{name.upper()}"
    for action in gone_settings([variable]).values():
        assert re.search(rf" {number:,g}\b", action), action


def test_other_variables_are_not_refused() -> None:
    assert gone_settings(["QUERYABLE_PROXY_PORT", "QUERYABLE_TYPO", "WAIT_TIMEOUT"]) == {}
