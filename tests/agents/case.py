"""The base of all cases: an application's folder, the example of the documentation, and requests."""

import json
import os
import re
import shutil
from pathlib import Path

from harness.servers import free_port
from servers import own

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs/languages/agents.md"


# An address of this machine that no other test has: on it a free port stays free until it is listened on.
HOST = f"127.{32 + os.getpid() // 65536 % 200}.{os.getpid() // 256 % 256}.{os.getpid() % 255 + 1}"


def example(heading):
    """The first block of JSON below this heading of the documentation."""
    text = PAGE.read_text().split(f"## {heading}\n", 1)[1]
    return re.search(r"^```json\n(.*?)^```", text, re.S | re.M)[1]


def prompted(heading):
    """The commands at the prompt of a tool in the first session below this heading."""
    text = PAGE.read_text().split(f"## {heading}\n", 1)[1]
    session = re.search(r"^```console\n(.*?)^```", text, re.S | re.M)[1]
    return re.findall(r"^prompt> (.*)$", session, re.M)


def is_open_to_all(path):
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in [path, *path.parents])


class Case:
    """One tool on one application, whose source is `apps/SOURCE`, copied to the folder that the documentation calls `/srv/shop`."""

    name = "?"
    is_quick = False
    source = None
    # The heading of the documentation whose example is run, and the port in it.
    heading = None
    port = None
    # The tool listens on it; else it connects to us.
    listens = False
    # The folder with what the tools need, which the application's user has to read.
    home = None

    def __init__(self, folder):
        self.root = folder / "shop"
        self.place = free_port(HOST)  # for tools that listen themselves

    def prepare(self):
        shutil.copytree(HERE / "apps" / self.source, self.root)
        (self.root / "out").mkdir()
        own(self.root)

    def build(self, dist):
        """Builds what needs the server's own files."""

    def places(self):
        """The texts of the example that stand for something here."""
        return {}

    def application(self):
        text = example(self.heading).replace("/srv/shop", str(self.root))
        places = {str(self.port): str(self.place)} if self.port else {}
        if self.listens:
            places = {f"127.0.0.1:{self.port}": f"{HOST}:{self.place}"}
        for there, here in {**places, **self.places()}.items():
            assert there in text, f"the example of `{self.heading}` has no `{there}`"
            text = text.replace(there, str(here))
        application = json.loads(text)
        if os.geteuid() == 0 and not (self.home and is_open_to_all(self.home)):
            # The folder of the sources is root's own.
            application |= {"user": "root", "group": "root"}
        return application

    def configuration(self, address):
        return {"listeners": {address: {"pass": "applications/shop"}}, "applications": {"shop": self.application()}}

    def check(self, server):
        """Sends requests, and returns a line about what the tool has seen."""
        raise NotImplementedError

    def after_stop(self, server):
        """The same after the server has stopped."""

    def close(self):
        pass

    def get(self, server, path, status=200):
        answered, body = server.get(path)
        assert answered == status, f"{path}: {answered} {body[:2000]}"
        return body.decode()
