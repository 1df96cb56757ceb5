"""Runs over NVIDIA FLARE: docs/flare.md.

Only `recipe`, `controller`, `executor` and `bus` need nvflare (the extra `flare`).
"""
