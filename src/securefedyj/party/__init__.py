"""A party as a state machine: messages in, messages out."""
