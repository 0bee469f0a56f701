"""Lowering: the graph becomes the kernels that an engine launches."""
