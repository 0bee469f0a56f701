"""The leaf: units, error classes, the strict YAML loader, sourced numbers, access patterns."""
