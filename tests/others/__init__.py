"""Producers and brokers of others: `make producers-test` and `make brokers-test`."""
