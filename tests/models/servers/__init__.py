"""Servers of our own on loopback that speak what models' providers and their like speak."""
