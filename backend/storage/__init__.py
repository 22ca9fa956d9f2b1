"""RocksDB: one directory a store partition, under <data folder>/<view>/<partition>.

Entries and position are written in one batch. Knows nothing of Kafka's clients, of threads or of
HTTP; imports `model` alone.
"""
