"""Parties on machines of their own: agreed file, keys, hub, sessions."""
