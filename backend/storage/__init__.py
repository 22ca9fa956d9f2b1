"""RocksDB: one directory per store partition, under <data folder>/<view>/<partition>.

Entries and position are written in one batch. No Kafka clients, threads or HTTP here; imports only
`model`.
"""
