"""Needs what is not installed."""
import no_such_library  # noqa: F401
