"""The handlers of the routes: one module a group of paths."""
