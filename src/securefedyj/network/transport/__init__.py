"""A party's connections: to the hub, and by TLS from end to end to each peer."""
