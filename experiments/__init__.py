"""The paper's figures and tables, computed again: one module per item, and one page of all.

Run by `python -m experiments` from the root of the repository, or by `make paper`.
"""
