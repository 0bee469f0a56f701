"""Serving: requests, schedulers and replicas on a simulated clock, and what a plan costs."""
