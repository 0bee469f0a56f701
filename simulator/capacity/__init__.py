"""The account of memory: what a deployment holds, and what it would take to hold more."""
