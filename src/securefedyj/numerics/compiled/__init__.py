"""Loops compiled by Numba, for what NumPy does as well: importing any of them imports Numba."""
