"""A silo's data."""
