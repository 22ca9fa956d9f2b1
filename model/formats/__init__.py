"""Formats of keys and values: record bytes, stored bytes, URL text and JSON.

Pure functions. A schema that has to be fetched comes through `SchemaSource`.
"""
