"""MCP servers: connected when a run needs them, and what they offer as tools."""
