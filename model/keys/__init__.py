"""Keys that are named by fields of documents (`key_fields`): texts, order, codec."""
