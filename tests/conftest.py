"""Settings shared by all tests."""

from hypothesis import settings

# Deadlines measure the machine, not the code.
settings.register_profile("securefedyj", deadline=None, max_examples=50)
settings.load_profile("securefedyj")
