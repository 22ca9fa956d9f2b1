"""RocksDB: one directory per store partition, under <data folder>/<view>/<partition>.

Entries and position are written in one batch. This package uses no Kafka clients, threads or HTTP,
and imports only `model`.
"""
