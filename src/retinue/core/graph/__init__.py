"""Graphs of targets: as they are declared, what follows from their shape, and what is to be done next. Pure."""
