import ddtrace.auto  # noqa: F401

from shop import app  # noqa: F401
