"""Graphs of targets: every node is a child run, and all thinking is in `core/graph`."""
