"""The mathematics of a run: the transformation, the search, exact sums. No I/O."""
