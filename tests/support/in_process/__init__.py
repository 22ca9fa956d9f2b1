"""Instances without Kafka, network and processes, for tests of single and concurrent requests.

`instance` has one instance with real store partitions, `world` two instances that forward to each
other, `cluster` several with ingest from `logs`. `fakes` replaces what needs a broker; `examples`
and `avro_examples` have views, members and records. Nothing runs in the background: the test calls
each step.
"""
