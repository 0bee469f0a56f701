"""Where it runs: chips, nodes and their cycle-level models."""
