"""What `securefedyj join` does, without a terminal: docs/python.md."""
