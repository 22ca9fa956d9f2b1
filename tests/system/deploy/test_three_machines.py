"""Three machines by the commands of docs/installation.md and docs/upgrades.md, from the packaged
files: they are installed and started, one fails, one is added, all are upgraded, and go back."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from local.settings import REPOSITORY
from local.waiting import wait_until
from tests.support.docs_examples import BLOCK
from tests.support.machines.machine import Machine, Network, folder_for_all, why_not

BROKER = "10.0.0.21"
BACKEND, PROXY = "queryable-backend@b1", "queryable-proxy"
ADDRESSES = {"m1": "10.0.0.11", "m2": "10.0.0.12", "m3": "10.0.0.13", "m4": "10.0.0.14"}
PARTITIONS = 6
KEYS = [f"key-{n}" for n in range(40)]
VIEWS = """
[views.orders]
topic = "orders"
path = "/orders"
key = "string"
value = "json"
"""

DOCS = REPOSITORY / "docs"


def commands(page: str, begin: str, end: str) -> list[str]:
    """The shell commands between two headings of a page."""
    part = (DOCS / page).read_text().partition(f"{begin}\n")[2].partition(f"{end}\n")[0]
    return [text for kind, text in BLOCK.findall(part) if kind == "sh"]


[INSTALL] = commands("installation.md", "## systemd", "### One machine")
[SECRET, SET_UP, WAIT] = commands("installation.md", "### Three machines", "### Services")
[NEW_VERSION, SWITCH] = commands("upgrades.md", "## With systemd", "## With images")


def of_machine(machine: Machine, text: str) -> str:
    """The commands with the address of the machine."""
    text = re.sub("ADDRESS=.*", f"ADDRESS={machine.address}", text, count=1)
    assert machine.address in text
    return text


def set_up(machine: Machine) -> str:
    return of_machine(machine, SET_UP)


def get(address: str, path: str, port: int = 8080) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


class Site:
    """The machines, the broker, and the values that were written last."""

    def __init__(self, network: Network, folder: Path, servers: str) -> None:
        self._network, self._folder = network, folder
        self._producer = Producer(
            {"bootstrap.servers": servers, "partitioner": "murmur2_random", "log_level": 0}
        )
        self.values: dict[str, int] = {}
        self.machines: dict[str, Machine] = {}

    def add(self, name: str, hostname: str = "") -> Machine:
        machine = Machine(self._network, self._folder / name, name, ADDRESSES[name])
        if hostname:
            machine.rename(hostname)
        self.machines[name] = machine
        (machine.clone / "views.toml").write_text(VIEWS)
        if (secret := self.machines["m1"].clone / "cluster-secret").exists():
            shutil.copyfile(secret, machine.clone / "cluster-secret") if name != "m1" else None
        return machine

    def write(self, version: int) -> None:
        for number, key in enumerate(KEYS):
            value = version * 1000 + number
            self._producer.produce("orders", json.dumps(value).encode(), key.encode())
            self.values[key] = value
        assert self._producer.flush(20) == 0

    def topology(self, name: str) -> dict[str, dict[str, Any]]:
        """Id -> instance, as nginx on this machine says."""
        status, document = get(ADDRESSES[name], "/processors")
        assert status == 200
        return {each["id"]: each for each in document["processors"]}

    def wait_until_all_answer(self, *names: str) -> None:
        """Until nginx on each of these machines answers each key with the last value."""

        def wrong() -> list[Any]:
            found = []
            for name in names:
                for key, value in self.values.items():
                    status, document = get(ADDRESSES[name], f"/orders/{key}")
                    if (status, document.get("value")) != (200, value):
                        found.append((name, key, status, document))
            return found

        wait_until(lambda: not wrong(), 30, f"all values through {names}", 0.2)

    @contextmanager
    def readers(self, *names: str) -> Iterator[Callable[[], Mapping[int, int]]]:
        """Read all keys through nginx of these machines, until the end of the block. A value must
        be the last one of its key, or the one before, which is still read while a copy follows.
        Yields a function that counts the answers since its last call by status."""
        statuses: Counter[int] = Counter()
        wrong: list[Any] = []
        stop = threading.Event()

        def read(address: str) -> None:
            while not stop.is_set():
                for key in KEYS:
                    before = self.values[key] - 1000
                    try:
                        status, document = get(address, f"/orders/{key}")
                    except OSError as error:
                        wrong.append((address, key, repr(error)))
                        return
                    statuses[status] += 1
                    last = self.values[key]
                    if status != 503 and document.get("value") not in range(before, last + 1, 1000):
                        wrong.append((address, key, status, document))
                    stop.wait(0.005)

        def count() -> Mapping[int, int]:
            found = dict(statuses)
            statuses.clear()
            return found

        threads = [
            threading.Thread(target=read, args=(ADDRESSES[name],), name=f"reader of {name}")
            for name in names
        ]
        for thread in threads:
            thread.start()
        try:
            yield count
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert wrong == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if reason := why_not():
        pytest.skip(reason)
    with Network(BROKER) as network, folder_for_all(Path(f"/tmp/qt{os.getpid()}")) as folder:
        broker = Broker(tmp_path / "kafka", port=9092)
        # on loopback for the broker itself, and for the machines
        listeners = f"BROKER://127.0.0.1:9093,MACHINES://{BROKER}:9092"
        broker._properties.update({
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map":
                "BROKER:PLAINTEXT,MACHINES:PLAINTEXT,CONTROLLER:PLAINTEXT",
        })  # fmt: skip
        broker.port = 9093
        with broker:
            create_topics(
                quiet_admin(broker.bootstrap_servers),
                [Topic("orders", PARTITIONS, {"cleanup.policy": "compact"})],
            )
            yield Site(network, folder, broker.bootstrap_servers)


def assert_is_spread(topology: Mapping[str, Mapping[str, Any]], ids: set[str]) -> None:
    assert set(topology) == ids
    active = [p for each in topology.values() for p in each["topicPartitions"]["orders"]]
    assert sorted(active) == list(range(PARTITIONS))
    assert all(each["topicPartitions"]["orders"] for each in topology.values())


def test_the_commands_of_the_page(site: Site) -> None:
    # install and start
    site.add("m1").run(SECRET)
    three = [site.machines["m1"], site.add("m2"), site.add("m3")]
    for machine in three:
        machine.run(INSTALL)
        machine.run(set_up(machine))
    site.write(1)
    for machine in three:
        machine.run(f"ADDRESS={machine.address}\n{WAIT}")
    ids = {"b1-m1", "b1-m2", "b1-m3"}
    wait_until(lambda: set(site.topology("m1")) == ids, 20, "three instances")
    for name in ("m1", "m2", "m3"):
        assert_is_spread(site.topology(name), ids)
    assert {each["host"] for each in site.topology("m1").values()} == {m.address for m in three}
    site.wait_until_all_answer("m1", "m2", "m3")

    # a machine fails
    with site.readers("m2", "m3") as count:
        site.machines["m1"].fail()
        site.write(2)
        site.wait_until_all_answer("m2", "m3")
        wait_until(lambda: set(site.topology("m2")) == ids - {"b1-m1"}, 60, "two instances")
        for name in ("m2", "m3"):
            machine = site.machines[name]
            machine.run(f"ADDRESS={machine.address}\n{WAIT}")
        assert count()[200] > 0
        site.wait_until_all_answer("m2", "m3")
        # and is back
        site.machines["m1"].boot(BACKEND, PROXY)
        site.machines["m1"].run(f"ADDRESS={ADDRESSES['m1']}\n{WAIT}")
        wait_until(lambda: set(site.topology("m2")) == ids, 30, "three instances")
        count()
        site.wait_until_all_answer("m1", "m2", "m3")

        # one is added, which has the name of another one at first
        machine = site.add("m4", hostname="m1")
        machine.run(INSTALL)
        machine.run(set_up(machine))
        wait_until(lambda: not machine.service(BACKEND).pid, 60, "the end of the second b1-m1")
        for part in ("b1-m1 (10.0.0.14:8081)", "at 10.0.0.11:8081", "QUERYABLE_INSTANCE_ID"):
            assert part in machine.log(BACKEND)
        assert set(site.topology("m2")) == ids
        machine.run(f"systemctl disable --now {PROXY}")
        machine.rename("m4")
        machine.run(f"systemctl enable --now {BACKEND} {PROXY}")
        machine.run(f"ADDRESS={machine.address}\n{WAIT}")
        ids.add("b1-m4")
        wait_until(lambda: set(site.topology("m2")) == ids, 30, "four instances")
        wait_until(
            lambda: all(e["topicPartitions"]["orders"] for e in site.topology("m4").values()),
            60, "its share",
        )  # fmt: skip
        site.write(3)
        site.wait_until_all_answer(*ADDRESSES)
        assert set(count()) == {200}

    # all are upgraded, one after the other
    with site.readers(*ADDRESSES) as count:
        for version, (name, machine) in enumerate(site.machines.items(), 4):
            before = machine.service(BACKEND).pid
            machine.run(NEW_VERSION)
            assert machine.service(BACKEND).pid == before
            machine.run(of_machine(machine, SWITCH))
            assert machine.service(BACKEND).pid not in (0, before)
            assert os.readlink(machine.folder / "opt/queryable/venv") == "0.2.0"
            site.write(version)
            site.wait_until_all_answer(name)
        assert set(count()) == {200}
        # one of them goes back
        machine = site.machines["m1"]
        before = machine.service(BACKEND).pid
        machine.run(of_machine(machine, SWITCH.replace("0.2.0", "0.1.0")))
        assert machine.service(BACKEND).pid not in (0, before)
        assert os.readlink(machine.folder / "opt/queryable/venv") == "0.1.0"
        assert set(count()) == {200}
    assert_is_spread(site.topology("m1"), ids)
