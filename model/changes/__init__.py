"""State that records of a topic change, for example which deployment is current."""
