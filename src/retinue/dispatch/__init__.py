"""How workers hear that there is work."""
