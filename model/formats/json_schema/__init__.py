"""JSON Schema: the names and types of fields. Values are not validated."""
