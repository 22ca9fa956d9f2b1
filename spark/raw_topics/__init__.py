"""One module per raw topic: its schema, its decoder, and functions that its views share."""
