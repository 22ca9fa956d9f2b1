"""Keys that move to another partition of their topic."""
