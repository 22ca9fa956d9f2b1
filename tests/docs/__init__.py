"""What the documentation says is so: a setting, code or metric that it leaves out is an error."""
