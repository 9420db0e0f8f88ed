"""The tools that come with Retinue."""
