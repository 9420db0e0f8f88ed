"""Names to models."""
