"""The tools at pinned versions, installed below the target folder on first use, and again when the list changes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The PHP that the tests use: Debian's.
PHP = re.search(r"php(\d+\.\d+)-cli", subprocess.run(["apt-cache", "depends", "php-cli"], capture_output=True, text=True, check=False).stdout)[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "agents"


def _once(folder, wanted, install):
    """Calls `install(FOLDER)` unless the folder is there and was made from the same text."""
    mark = folder / "made-from"
    if not mark.exists() or mark.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install(folder)
        mark.write_text(wanted)
    return folder


def _run(*words, cwd=None):
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, words))}:\n{done.stdout}"


def python(name):
    """A virtual environment with `apps/requirements-NAME.txt`."""
    wanted = HERE / f"apps/requirements-{name}.txt"

    def install(folder):
        _run("/usr/bin/python3", "-m", "venv", folder)
        _run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted)

    return _once(TARGET / f"python-{name}", wanted.read_text(), install)


def node():
    """The folder whose `node_modules` has `apps/node/package-lock.json`."""
    source = HERE / "apps/node"
    wanted = "".join((source / file).read_text() for file in ("package.json", "package-lock.json"))

    def install(folder):
        for file in ("package.json", "package-lock.json"):
            shutil.copy(source / file, folder)
        _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error", cwd=folder)

    return _once(TARGET / "node", wanted, install)


def java(*coordinates):
    """The folder with these artifacts of Maven."""

    def install(folder):
        for coordinate in coordinates:
            _run("mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={coordinate}", f"-DoutputDirectory={folder}")

    name = re.sub(r"[^a-z0-9.]+", "-", coordinates[0].lower())
    return _once(TARGET / name, "\n".join(coordinates), install)


def debian(*packages):
    """The folder that these packages of this Debian are unpacked into: installed, they would be switched on for all that use the language."""

    def install(folder):
        _run("apt-get", "download", *packages, cwd=folder)
        for package in folder.glob("*.deb"):
            _run("dpkg-deb", "-x", package, folder)
            package.unlink()

    return _once(TARGET / f"debian-{packages[0]}", "\n".join(packages), install)
