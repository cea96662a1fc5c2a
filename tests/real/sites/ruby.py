"""Rack: Sinatra, Debian's package, used like a person."""

from pathlib import Path

from .perl import PerlSite


class Sinatra(PerlSite):
    name = "sinatra"
    script = "sinatra.ru"
    greeting = "Sinatra is up"
    source = Path(__file__).parent / "ruby_apps"

    def tutti(self, address):
        configuration = super().tutti(address)
        configuration["applications"]["site"].update({"type": "ruby", "threads": 2, "preload": True})
        return configuration
