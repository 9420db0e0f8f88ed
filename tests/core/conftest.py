"""Hypothesis for the whole folder: laws are checked on enough examples, however slow the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("core", max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")
