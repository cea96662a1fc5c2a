#!/usr/bin/env python3
"""The layers of the images, which anybody can read: `tests/packages/layers.py`, after `make image images`.

No layer and no description has what `packaging/registries` names of the machine that built it, or the address of its mirror, and no name server is
written down. The sources of packages are Debian's own, with its security updates.
"""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

from chart import skipped as not_here
from chart import version
from unit_users import ROOT

# A line that is shorter could be in any file.
LEAST_BYTES = 16
# Files that an engine mounts: they are there, and empty.
MOUNTED = {"etc/resolv.conf", "etc/hostname", "etc/hosts"}
DEBIANS = {"deb.debian.org", "security.debian.org"}


def machine_files():
    """The files that say how this machine reaches its registries."""
    named = subprocess.run([ROOT / "packaging/registries"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [file for path in map(Path, named) for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]


def revealing(files):
    """Returns what tells that a text is of these files, or of this machine's sources. Of a certificate, a line in its middle, since the first ones are alike."""
    found = set()
    for file in files:
        lines = [line.strip() for line in file.read_bytes().splitlines()]
        for end in [number for number, line in enumerate(lines) if line == b"-----END CERTIFICATE-----"]:
            begin = max(number for number in range(end) if lines[number] == b"-----BEGIN CERTIFICATE-----")
            found.add(lines[(begin + end) // 2])
        if b"-----END CERTIFICATE-----" not in lines:
            found.update(line for line in lines if len(line) >= LEAST_BYTES)
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True, check=True)
    hosts = {urlsplit(address).hostname for address in listed.stdout.split()} - DEBIANS - {None}
    found.update(host.encode() for host in hosts if len(host) >= LEAST_BYTES)
    return found


def looked_at(archive, files, texts):
    """Looks at each file of each layer; the number of them."""
    pattern = re.compile(b"|".join(map(re.escape, sorted(texts)))) if texts else None
    places = {str(file).lstrip("/") for file in files}
    count, sources = 0, ""
    image = archive.stem
    with tarfile.open(archive) as whole:
        manifest, = json.load(whole.extractfile("manifest.json"))
        description = whole.extractfile(manifest["Config"]).read()
        assert not pattern or not pattern.search(description), f"{image}: its description has what is this machine's"
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=whole.extractfile(name)) as layer:
                for entry in layer:
                    path = entry.name.removeprefix("./").lstrip("/")
                    if not entry.isfile():
                        continue
                    count += 1
                    assert path not in places, f"{image}: a layer has this machine's /{path}"
                    assert path not in MOUNTED or entry.size == 0, f"{image}: a layer has this machine's /{path}"
                    assert not path.startswith("run/secrets/"), f"{image}: a layer has /{path}"
                    data = layer.extractfile(entry).read()
                    assert not pattern or not pattern.search(data), f"{image}: /{path} in a layer has a line of this machine's settings for registries"
                    if path == "etc/apt/sources.list":
                        sources = data.decode()
    for line in filter(None, sources.splitlines()):
        assert urlsplit(line.split()[1]).hostname in DEBIANS, f"{image}: /etc/apt/sources.list has the source of another than Debian: {line}"
    for updates in ("-updates main", "-security main"):
        assert updates in sources, f"{image}: /etc/apt/sources.list has no `{updates}`, so an image on top gets no updates: {sources}"
    return count


def no_layer_has_this_machine(archives):
    files = machine_files()
    texts = revealing(files)
    for archive in archives:
        count = looked_at(archive, files, texts)
        print(f"layers: {archive.stem}: none of its {count} files has one of {len(texts)} texts of this machine's settings", flush=True)


def there():
    """The archives of this version."""
    return sorted((ROOT / "dist/images").glob(f"tutti-image-{version()}*.tar"))


def main():
    archives = there()
    if not archives:
        return not_here("layers", "there are no images (make image images)")
    no_layer_has_this_machine(archives)
    print(f"layers: {len(archives)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
