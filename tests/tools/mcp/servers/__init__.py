"""Programs that the tests start as MCP servers."""
