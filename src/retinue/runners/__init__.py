"""One file for each platform."""
