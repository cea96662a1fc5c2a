"""The base of the Python sites: one virtual environment, made by pip below the target folder, and the applications' source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from servers import own

HERE = Path(__file__).parent / "python"
ROOT = HERE.parent.parent.parent.parent


def environment():
    """The virtual environment with everything the sites need; made on first use, and again when the list changes."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "python-sites"
    wanted = (HERE / "requirements.txt").read_text()
    mark = folder / "requirements.txt"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"], check=True)
        mark.write_text(wanted)
    return folder


def is_open_to_all(path):
    return all(parent.stat().st_mode & 0o005 == 0o005 for parent in [path, *path.parents])


class PythonSite:
    """A site whose source is `python/NAME`, copied to a folder of its own."""

    name = "?"
    source = None
    members = {}

    def __init__(self, folder):
        self.root = folder / self.name
        self.environment = {}

    def prepare(self):
        self.home = environment()
        shutil.copytree(HERE / (self.source or self.name), self.root)
        own(self.root)

    def run(self, *arguments):
        """Runs the environment's Python in the site's folder."""
        subprocess.run([self.home / "bin/python", *arguments], cwd=self.root, check=True, stdout=subprocess.DEVNULL,
                       stderr=sys.stderr, env={**os.environ, **self.environment})
        own(self.root)

    def after_start(self, server):
        pass

    def stop(self):
        pass

    def application(self):
        application = {"type": "python", "path": str(self.root), "home": str(self.home), "environment": self.environment,
                       "processes": {"max": 3, "spare": 1}, "working_directory": str(self.root), **self.members}
        if os.geteuid() == 0 and not is_open_to_all(self.home):
            # The folder of the sources is root's own.
            application |= {"user": "root", "group": "root"}
        return application

    def tutti(self, address):
        return {"listeners": {address: {"pass": "applications/app"}}, "applications": {"app": self.application()},
                "settings": {"http": {"max_body_size": 64 << 20}}}
