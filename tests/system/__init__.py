"""Real processes together: a broker, backends, nginx."""
