"""Three-party replicated secret sharing, the default engine (docs/protocol.md, section 8)."""
