"""Formats of keys and values: record bytes, stored bytes, URL text and JSON.

Pure functions. Schemas that must be fetched come from a `SchemaSource`.
"""
