"""A chip as a machine that runs kernel programs, and what kernels side by side share of it."""
