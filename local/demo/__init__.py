"""The demo: its data and topics, the expected answers of its views, and their verification."""
