"""The fit of pooled data by maximum likelihood, and how certain it is."""
