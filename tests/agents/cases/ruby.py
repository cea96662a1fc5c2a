"""Ruby: SimpleCov and byebug."""

import json

import packages
from case import Case


class SimpleCov(Case):
    """The lines that have run, from what each process writes at its end."""

    name = "simplecov"
    source = "ruby"
    heading = "SimpleCov"

    def application(self):
        folder = packages.debian("ruby-simplecov", "ruby-simplecov-html", "ruby-docile")
        libraries = {file.parent for name in ("simplecov", "simplecov-html", "docile") for file in folder.rglob(f"{name}.rb")}
        return super().application() | {"environment": {"RUBYLIB": ":".join(map(str, sorted(libraries)))}}

    def check(self, server):
        assert self.get(server, "/items/4") == "item 4, 8\n"

    def after_stop(self, server):
        results = json.loads((self.root / "out/.resultset.json").read_text())
        lines = [result["coverage"][str(self.root / "shop.rb")]["lines"] for result in results.values()]
        assert any(found[2] and found[3] for found in lines), lines
        assert not any(found[7] for found in lines), lines
        return f"lines 3 and 4 have run, and line 8 has not ({len(lines)} processes)"


CASES = [SimpleCov]
