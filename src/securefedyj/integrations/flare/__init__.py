"""Runs over NVIDIA FLARE: docs/flare.md.

Only `recipe`, `controller`, `executor` and `provision` need nvflare (the extra `flare`).
"""
