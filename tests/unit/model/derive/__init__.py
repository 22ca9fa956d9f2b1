"""[views.NAME.derive]."""
