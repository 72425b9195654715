"""Runs as data, their records, and the paper's experiments."""
