"""The command line: one thin module a command; nothing imports it."""
