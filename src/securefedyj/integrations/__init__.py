"""Runs over frameworks that connect the sites already."""
