"""The query backend.

Imports go one way: app > http > queries > (cluster | ingest | storage) > wire > model. `cluster`,
`ingest` and `storage` never import each other: `ingest` declares the protocol that `storage`
implements, and `app` connects them.
"""
