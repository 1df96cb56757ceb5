"""One party of a run on the network: its sessions, what it remembers, and what drives it."""
