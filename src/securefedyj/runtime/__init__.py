"""Ways to carry messages between parties."""
