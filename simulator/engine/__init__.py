"""Engines: profiles of kernels and cache layouts, and the graph lowered to what they launch."""
