#!/usr/bin/env python3
"""Writes our entries as HttpArena has them: `bench/arena/export.py FOLDER --repo URL --images REGISTRY/tutti`, FOLDER its `frameworks`.

Each becomes a folder `tutti-ENTRY` that needs no other file of ours: the configuration of its image is put together, and the names are put in.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import arena  # noqa: E402

# Parts of `site.json`, and files that a build leaves beside the sources.
LEFT_OUT = ("application.json", "target", "node_modules", "__pycache__", "Gemfile.lock")


def write(name, folder, repo, images):
    """One entry, which must not be there."""
    shutil.copytree(arena.ARENA / name, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("FROM tutti:", f"FROM {images}:"))
    put(folder / "meta.json", {**arena.meta(name), "repo": repo})
    put(folder / "site.json", arena.site(name))
    if name.startswith("gateway"):
        put(folder / "server.json", arena.site("node", "server"))


def put(file, value):
    file.write_text(json.dumps(value, indent=4) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder `frameworks` of a copy of HttpArena")
    parser.add_argument("--repo", required=True, help="the URL of Tutti's repository")
    parser.add_argument("--images", required=True, help="what precedes the tag of our images, such as registry.example.com/tutti")
    options = parser.parse_args()
    for name in arena.ENTRIES:
        write(name, options.folder / f"tutti-{name}", options.repo, options.images)


if __name__ == "__main__":
    main()
