"""Runs that Flower launches, over our own hub: docs/flower.md.

Only `client`, `server`, `supernode`, `process` and `rehearsal` need flwr (the extra `flower`).
"""
