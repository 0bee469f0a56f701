"""DeepSeek-V4: its configuration, graph and cache state."""
