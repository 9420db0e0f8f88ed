"""What the engine needs from outside."""
