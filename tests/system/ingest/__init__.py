"""From topics to answers: topics that change, brokers that fail, dead letters, appends."""
