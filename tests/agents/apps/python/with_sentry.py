import sentry_sdk

sentry_sdk.init(traces_sample_rate=1.0)

from shop import app  # noqa: E402, F401
