"""Measured kernels: rows as tiny graphs, fits of constants, and predictions held against them."""
