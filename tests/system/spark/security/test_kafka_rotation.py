"""The password of Kafka is replaced for a streaming job, while clients read the view it derives."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from local.kafka.broker import quiet_admin
from local.kafka.topics import Topic, create_topics
from local.processes import end
from local.waiting import wait_until
from tests.support.deployment import Deployment, views_toml
from tests.support.secure_kafka.broker import ROTATED, SecureBroker
from tests.system.security.readers import reading
from tests.system.security.rotating_world import PASSWORDS, reference_in, write_password
from tests.system.spark.security.counted_orders import (
    Orders,
    counts_readers,
    running_job,
    wait_for_counts,
)

MECHANISM = "SCRAM-SHA-256"
SOURCE, DERIVED = "rotation-orders", "rotation-counts"
DERIVE = (
    f'[views.v.derive]\nfrom = "{SOURCE}"\nfields = {{ item = "string" }}\n'
    'key = "item"\ncount = true\n'
)


def order(item: str) -> bytes:
    return b'{"item":"%b"}' % item.encode()


def test_the_password_of_a_streaming_job(secure_broker: SecureBroker, tmp_path: Path) -> None:
    old, new = PASSWORDS
    servers, address = secure_broker.bootstrap_servers, secure_broker.address(MECHANISM)
    secure_broker.set_password(ROTATED, MECHANISM, old)
    write_password(tmp_path, old)
    topics = [Topic(SOURCE, 1), Topic(DERIVED, 1, {"cleanup.policy": "compact"})]
    create_topics(quiet_admin(servers), topics)
    kafka = {
        **secure_broker.java_table(MECHANISM),
        "sasl.username": ROTATED,
        "sasl.password": reference_in(tmp_path),
    }
    views = views_toml(kafka, v={"topic": DERIVED, "value": "int64"}) + DERIVE
    orders = Orders(servers, SOURCE)
    orders.write(order)
    with Deployment(tmp_path / "deployment", address, views) as deployment:
        path = deployment.views_path
        wait = partial(wait_for_counts, deployment, orders, folder=tmp_path)
        with running_job(path, address, tmp_path) as job:
            deployment.start(1)
            nginx = deployment.proxy(workers=1)
            wait(job)
            with reading(counts_readers(deployment, nginx, orders)) as reads:
                secure_broker.set_password(ROTATED, MECHANISM, new)
                accepts = partial(secure_broker.accepts, ROTATED, MECHANISM)
                wait_until(lambda: not accepts(old), 20, "the old password to be refused")
                write_password(tmp_path, new)
                orders.write(order)
                wait(job)  # by the connections that are open
                assert end(job, 60) == 0
                orders.write(order)
                reads.all_again()
                with running_job(path, address, tmp_path) as restarted:
                    wait(restarted)
                    orders.write(order)
                    wait(restarted)
                    reads.all_again()
