"""Mutated files and options of every command, run in process and judged by what they print."""
