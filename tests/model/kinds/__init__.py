"""Windows, sessions, versions and stores of one's own."""
