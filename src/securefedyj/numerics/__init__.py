"""The mathematics: the transformation, its likelihood, the search, exact sums. No I/O."""
