"""Eviction policies of single blocks, one a file."""
