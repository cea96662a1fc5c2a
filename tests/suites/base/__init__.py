"""Modules that every suite needs; `run.py` says what a suite is."""

from .case import Case, Missing
from .context import Context, SuiteServer
from .wire import Response, exchange

__all__ = ["Case", "Context", "Missing", "Response", "SuiteServer", "exchange"]
