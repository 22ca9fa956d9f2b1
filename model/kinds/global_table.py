"""global: a key-value store whose partitions are all on every instance, so that reads are local.

Source: KIP-99 (global tables of Kafka Streams).
"""

from __future__ import annotations

from model.kinds.key_value import KeyValue


class GlobalTable(KeyValue):
    name = "global"
    on_all_instances = True
