"""The query backend.

Imports go one way: app > api > (storage | ingest | membership) > core. The three in the middle
never import each other: `ingest` declares the protocol that `storage` fulfils, `app` joins them.
"""
