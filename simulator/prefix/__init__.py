"""Prefix caching of the heterogeneous cache: what is known, stored, loaded and computed."""
