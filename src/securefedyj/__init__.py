"""Secure federated feature Gaussianization with the Yeo-Johnson transformation."""
