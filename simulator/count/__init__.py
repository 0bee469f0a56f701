"""Counting: FLOP, bytes, parameters and cache state of a graph, on no machine at all."""
