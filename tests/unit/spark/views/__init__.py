"""Views of users: how they are found, their topics, several sources, joins."""
