"""Caches of prefixes: allocators, blocks on disk, what is kept and what is found again."""
