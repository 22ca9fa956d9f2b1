"""One module for each raw topic: its schema, its decoder, and the steps that its views share."""
