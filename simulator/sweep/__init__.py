"""Sweeps of serving scenarios over grids of their fields."""
