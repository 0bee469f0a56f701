"""Request traffic: traces in one columnar form, their readers, and synthetic ones."""
