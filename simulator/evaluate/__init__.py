"""Numeric execution: the dense reference and the packed, paged evaluator."""
