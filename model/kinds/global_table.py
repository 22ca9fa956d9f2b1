"""global: a key-value store of which every instance has all partitions, so that it reads locally.

Source: KIP-99 (global tables of Kafka Streams).
"""

from __future__ import annotations

from model.kinds.key_value import KeyValue


class GlobalTable(KeyValue):
    name = "global"
    on_all_instances = True
