"""How long nginx waits for a backend."""
