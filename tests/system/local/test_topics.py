import pytest

from local.errors import LocalError
from local.kafka.broker import Broker, quiet_admin
from local.kafka.topics import Topic, create_topics
from tests.support.plugins.fixtures import MakeTopic


def test_a_created_topic_has_its_partitions_and_leaders(
    broker: Broker, make_topic: MakeTopic
) -> None:
    name = make_topic(partitions=3, cleanup_policy="compact")
    shown = quiet_admin(broker.bootstrap_servers).list_topics(name, timeout=5).topics[name]
    assert sorted(shown.partitions) == [0, 1, 2]
    assert all(partition.leader == 1 for partition in shown.partitions.values())


def test_existing_topics_are_not_created_again(broker: Broker, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=2)
    admin = quiet_admin(broker.bootstrap_servers)
    assert create_topics(admin, [Topic(name, 2), Topic(f"{name}-b", 1)]) == [f"{name}-b"]


def test_another_partition_count_is_an_error(broker: Broker, make_topic: MakeTopic) -> None:
    name = make_topic(partitions=2)
    with pytest.raises(LocalError, match=f"topic {name} has 2 partitions and needs 3"):
        create_topics(quiet_admin(broker.bootstrap_servers), [Topic(name, 3)])


def test_a_rejection_by_the_broker_is_an_error(broker: Broker) -> None:
    with pytest.raises(LocalError, match="cannot create topic not ok"):
        create_topics(quiet_admin(broker.bootstrap_servers), [Topic("not ok", 1)])
