import os

from opentelemetry.instrumentation.auto_instrumentation import initialize

# The agent reads it.
os.environ["DJANGO_SETTINGS_MODULE"] = "shop_settings"
initialize()

from shop_django import application  # noqa: E402, F401
