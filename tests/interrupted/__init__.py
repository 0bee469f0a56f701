"""Runs that are killed, interrupted, doubled, or get too little of the machine."""
