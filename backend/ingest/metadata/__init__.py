"""Metadata of topics from the brokers, and whether a store still matches them."""
