"""Fuzzing of the fits: many families of data, each fit checked by an oracle of its own.

And of all that reads files and records of others: `hostile`.
"""
