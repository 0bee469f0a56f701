"""Proof by execution: prefixes restored from a real disk, resumed, compared with uncached runs."""
