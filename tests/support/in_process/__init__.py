"""Instances without Kafka, network and processes, for tests of single requests and of many at once.

`instance` is one with real store partitions, `world` two that ask one another, `cluster` several
with ingest from `logs`. `fakes` stand in for what needs a broker; `examples`, `avro_examples` are
views, members and records. Nothing runs by itself: a test says when what happens.
"""
