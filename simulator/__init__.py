"""Interpreters of the graph, kernel programs, cache pools, serving and planning."""
