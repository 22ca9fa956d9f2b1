"""What nginx knows, for the admin page, and the page itself while no backend answers."""
