"""State that changes by records of a topic, such as which deployment is current."""
