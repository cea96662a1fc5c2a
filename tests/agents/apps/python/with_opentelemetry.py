# The application's module: the agent begins in each process that serves, before it imports the application.
from opentelemetry.instrumentation.auto_instrumentation import initialize

initialize()

from shop import app  # noqa: E402, F401
