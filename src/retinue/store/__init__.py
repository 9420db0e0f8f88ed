"""One store, two dialects."""
