"""How long a test takes depends on the machine: no verdict of hypothesis hangs on it."""

from hypothesis import HealthCheck, settings

settings.register_profile("v4sim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("v4sim")
