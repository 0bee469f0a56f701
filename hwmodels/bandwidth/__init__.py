"""Bandwidth and latency of a chip's device memory by access pattern."""
