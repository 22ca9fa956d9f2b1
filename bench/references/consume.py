"""confluent-kafka alone: consumes partitions of a topic from beginning to end, and stores nothing.

    python -m bench.references.consume SERVERS TOPIC PARTITION…

Prints JSON, from the first record to the last: `rps` (records per second), `cpu_us` (CPU time of a
record), `seconds`, and `rss_mb` (peak memory).
"""

from __future__ import annotations

import json
import resource
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

_SETTINGS = {
    "group.id": "bench-unused",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # larger queues are not faster; the default of a second between fetches is slower
    "queued.max.messages.kbytes": 16384,
    "queued.min.messages": 20000,
    "fetch.queue.backoff.ms": 5,
}


def main(servers: str, topic: str, partitions: list[int]) -> None:
    consumer = Consumer({**_SETTINGS, "bootstrap.servers": servers})
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    records, open_ends = 0, set(partitions)
    began, cpu_began, deadline = 0.0, 0.0, time.monotonic() + 120
    while open_ends:
        messages = consumer.consume(4000, 0.5)
        if messages and not began:
            # the records of the first call are not counted, because the clock starts after it
            began, cpu_began, records = time.perf_counter(), time.process_time(), -len(messages)
        for message in messages:
            error = message.error()
            if error is None:
                records += 1
            elif error.code() == KafkaError._PARTITION_EOF:
                open_ends.discard(message.partition() or 0)
            else:
                sys.exit(f"{topic}: {error}")
        if time.monotonic() > deadline:
            sys.exit(f"{topic}: no end after 120 s, {records} records")
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    values = {"rps": records / seconds, "cpu_us": cpu / records * 1e6, "seconds": seconds}
    print(json.dumps({**values, "rss_mb": peak}))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(p) for p in sys.argv[3:]])
