"""The demo: its data and topics, what its views must answer, and the check that they do."""
