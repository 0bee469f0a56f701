"""The last-level cache: sets of sectored lines in partitions, access by access."""
