"""Versions of packages that the tests were run with."""
