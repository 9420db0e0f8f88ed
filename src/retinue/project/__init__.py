"""A project folder: agents, servers, tools and settings, read into values with every problem and its place."""
