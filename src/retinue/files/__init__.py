"""Where what is too large for a journal is kept."""
