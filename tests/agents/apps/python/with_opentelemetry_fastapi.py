from opentelemetry.instrumentation.auto_instrumentation import initialize

initialize()

from shop_fastapi import app  # noqa: E402, F401
