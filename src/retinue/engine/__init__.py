"""Claim, run, finish."""
