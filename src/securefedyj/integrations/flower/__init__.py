"""Runs that Flower launches, over our own hub: docs/flower.md.

Only `client`, `server`, `supernode` and `process` need flwr (the extra `flower`).
"""
