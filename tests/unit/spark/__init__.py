"""The views as functions, as streams on the real broker, and as the job that users run."""
