"""What agents can call: Python functions, and the tools of MCP servers."""
