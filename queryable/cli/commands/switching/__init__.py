"""Commands that change which version of a view, or which deployment, is current."""
