"""The pipelines that derive views: how far each has read its source topics, and whether it runs."""
