"""Costing: kernels on a machine in simulated time, and the records that come out."""
