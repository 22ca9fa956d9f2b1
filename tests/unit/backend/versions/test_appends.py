"""Records for one version of a view: appended only while that version is current."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from backend.cluster.placement import place
from model.topology import Topology
from model.view_versions import VersionState, ViewVersions
from model.views import View
from tests.support.in_process.examples import candidate
from tests.support.in_process.versioned import FIRST, SECOND, Deployment, Said

Written = list[tuple[str, int, bytes, bytes | None]]


@pytest.fixture
def written() -> Written:
    return []


@contextmanager
def deployed(folder: Path, written: Written, *views: View) -> Iterator[Deployment]:
    deployment = Deployment(folder, [replace(of, append=True) for of in views], None)
    context = deployment.contexts["b1"]

    def append(
        topic: str, partition: int, key: bytes, value: bytes | None, done: Callable[..., None]
    ) -> None:
        written.append((topic, partition, key, value))
        done(len(written) - 1, "")

    context.kafka.appender = cast(Any, SimpleNamespace(append=append))
    for of in views:
        context.metadata_poller.latest[of.topic] = cast(Any, SimpleNamespace(partitions=1))
    try:
        yield deployment
    finally:
        deployment.close()


@pytest.fixture
def made(tmp_path: Path, written: Written) -> Iterator[Deployment]:
    with deployed(tmp_path, written, FIRST, SECOND) as deployment:
        yield deployment


def append(made: Deployment, topic: str, version: str | None) -> Said:
    headers = {} if version is None else {"view-version": version}
    body = {"key": "a", "value": 1}
    return made.ask(f"/topics/{topic}/records", "b1", "POST", body, headers)


def test_a_record_for_the_current_version_is_appended(made: Deployment, written: Written) -> None:
    assert append(made, "orders", "1").status == 200
    made.switch(2)
    assert append(made, "orders-v2", "2").status == 200
    assert [topic for topic, *_ in written] == ["orders", "orders-v2"]


def test_a_record_for_another_version_is_refused(made: Deployment, written: Written) -> None:
    made.switch(2)
    # the last one was encoded for the topic of another version than it says
    for topic, version in (("orders", "1"), ("orders-v2", "1"), ("orders", "2")):
        answer = append(made, topic, version)
        assert (answer.status, answer.json["code"]) == (409, "version-not-current")
        assert answer.json["current"] == 2
    assert append(made, "orders-v2", "two").json["code"] == "version-not-current"
    assert written == []


def test_a_topic_can_be_written_whichever_version_is_current(
    made: Deployment, written: Written
) -> None:
    """A request without the header names the topic alone."""
    made.switch(2)
    assert append(made, "orders", None).status == 200
    assert [topic for topic, *_ in written] == ["orders"]


@pytest.mark.parametrize("topic", ["orders", "orders-v3"])
def test_an_instance_that_does_not_know_the_current_version_says_so(
    made: Deployment, written: Written, topic: str
) -> None:
    """Its views.toml does not declare the version, and so not its topic."""
    made.contexts["b1"].group.apply_versions({"orders": VersionState(3, 2, (), 5)})
    answer = append(made, topic, "3")
    assert (answer.status, answer.json["code"]) == (503, "version-unknown")
    assert "retry-after" in answer.named
    assert append(made, "orders-v3", None).status == 404
    assert written == []


@pytest.mark.parametrize("version", [None, "2"])
def test_a_topic_of_a_view_that_only_others_declare_is_no_missing_one(
    tmp_path: Path, written: Written, version: str | None
) -> None:
    """Another instance takes the record: this one must not say that the topic takes none."""
    for own in ([FIRST], [FIRST, replace(SECOND, value="string")]):
        with deployed(tmp_path / str(len(own)), written, *own) as made:
            context = made.contexts["b1"]
            others = [candidate(id_, [FIRST, SECOND]) for id_ in ("b2", "b3")]
            counts = {"orders": 1, "orders-v2": 1}
            context.group.apply_topology(place([candidate("b1", own), *others], counts, 9))
            context.group.apply_versions({"orders": VersionState(2, 1, (), 5)})
            answer = append(made, "orders-v2", version)
            assert (answer.status, answer.json["code"]) == (503, "definition-differs")
            assert "retry-after" in answer.named
            assert append(made, "other", None).status == 404
    assert written == []


def test_an_instance_without_a_topology_does_not_say_that_a_topic_takes_no_records(
    made: Deployment,
) -> None:
    made.contexts["b1"].group.topology = Topology()
    answer = append(made, "other", None)
    assert (answer.status, answer.json["code"]) == (503, "no-topology")


def test_a_view_without_versions_has_version_1(made: Deployment) -> None:
    """The client may have learned of the versions from an instance that declares them already."""
    made.contexts["b1"].group.versions = ViewVersions((FIRST,))
    assert append(made, "orders", "1").status == 200


def test_a_topic_of_several_views_is_written_for_any_that_is_current(
    tmp_path: Path, written: Written
) -> None:
    mirror = replace(SECOND, name="mirror", path=None)
    with deployed(tmp_path, written, FIRST, SECOND, mirror) as made:
        made.switch(2)
        assert append(made, "orders-v2", "2").status == 200
        assert append(made, "orders-v2", "1").status == 200  # of `mirror`
        assert append(made, "orders-v2", "3").status == 409
    assert len(written) == 2


def test_a_value_that_only_some_parsers_accept_is_appended(
    made: Deployment, written: Written
) -> None:
    """Half of a surrogate pair, as JavaScript writes it, and a number beyond a double."""
    text = rb'{"name":"x\ud83d", "n":1e400}'
    body = {"key": "a", "value": orjson.Fragment(text)}
    answer = made.ask("/topics/orders/records", "b1", "POST", body, {})
    assert answer.status == 200, answer
    assert written == [("orders", 0, b"a", text)]
