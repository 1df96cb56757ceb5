"""Runs over NVIDIA FLARE: docs/flare.md.

Only `recipe`, `controller`, `executor`, `bus` and `provision` need nvflare (the extra `flare`).
"""
