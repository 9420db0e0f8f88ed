"""Our own loop: a model, tools, and a contract for finishing."""
