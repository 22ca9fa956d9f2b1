"""Commands that tell what a view is, and what its values have."""
