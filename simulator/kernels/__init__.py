"""Kernel families: programs that predict how long a kernel takes from a few physical constants."""
