import newrelic.agent

newrelic.agent.initialize()

from shop import app  # noqa: E402, F401
