#!/usr/bin/env python3
"""A release is built twice, and its bytes compared: `reproducible.py [--crates "tutti-perl tutti-c" PROFILE | --image DEBS] [NAME=VALUE...]`, for
`make test-reproducible`.

The first build is a clone's, by this user. The second follows VERIFY.md: another user unpacks the source archive in another folder, with another home,
umask, time zone, language and path of the compiler. NAME=VALUE is given to make in both, such as `PROFILE=demo WASM=`. With `--crates`, only these
crates are built with this profile, and the programs and libraries of them compared. Where files differ, diffoscope says in what, if it is installed.

The image without a language is built twice, too, from the same packages: in two folders, each with a root of Debian and a storage of its own (root
only). With `--image`, only that is done, with the packages in DEBS.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chart import skipped, version

ROOT = Path(__file__).resolve().parent.parent.parent
VERIFY = ROOT / "VERIFY.md"
# A build from the source archive does not make that archive, nor the statement that names it.
NOT_AGAIN = {f"tutti-{version()}-source.tar.gz", f"tutti-{version()}.provenance.json"}


def rebuild():
    """The commands of VERIFY.md that build again, after the one that unpacks."""
    block, = re.findall(r"^```console\n[^`]*?(^\$ tar -xf tutti-[^`]*?)^```", VERIFY.read_text(encoding="utf-8"), re.M | re.S)
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    assert commands[0] == f"tar -xf tutti-{version()}-source.tar.gz" and commands[1] == f"cd tutti-{version()}", commands
    built, = [command for command in commands[2:] if command.startswith("make release ")]
    return built


def build(command, folder, environment, prefix=()):
    print(f"reproducible: in {folder}: {command}", flush=True)
    with open(folder.parent / f"{folder.name}.log", "wb") as log:
        done = subprocess.run([*prefix, "bash", "-c", command], cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    if done.returncode:
        sys.stdout.write("".join(Path(log.name).read_text(encoding="utf-8", errors="replace").splitlines(True)[-40:]))
        sys.exit(f"reproducible: the build in {folder} failed")


def first(folder, command):
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder], check=True)
    build(command, folder, {**os.environ, "CARGO_TARGET_DIR": str(folder / "target"), "TUTTI_TOOLS": str(ROOT / ".work/tools"), "PATH": path(os.environ["PATH"])})


def path(found):
    return f"{found}:/usr/local/go/bin"


def copy(source, target):
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)


def second(folder, command):
    """As user `nobody`, whose home has the crates, jars and tools that this user has fetched, so that no registry is asked again."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-xf", "-", "-C", folder], input=archive, check=True)
    home, rust = folder.parent / "home", folder.parent / "rust"
    home.mkdir()
    cargo = folder.parent / "crates"
    own = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for name in ("cache", "index"):
        copy(own / "registry" / name, cargo / "registry" / name)
    for name in ("config.toml", "config"):
        if (own / name).exists():
            shutil.copy(own / name, cargo / name)
    jars = folder.parent / "jars"
    copy(Path.home() / ".m2/repository", jars)
    tools = folder.parent / "tools"
    copy(ROOT / ".work/tools", tools)
    rust.mkdir()
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    environment = {
        "PATH": path(f"{rust}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), "HOME": str(home), "CARGO_HOME": str(cargo),
        "MAVEN_OPTS": f"-Duser.home={home} -Dmaven.repo.local={jars}", "TUTTI_TOOLS": str(tools), "TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8", "LC_ALL": "C",
    }
    for name, value in os.environ.items():
        if name.endswith(("_proxy", "_PROXY")) or name.startswith(("SSL_", "PIP_", "GOPROXY", "CARGO_NET_", "CARGO_HTTP_")):
            environment[name] = value
    prefix = []
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "nobody:nogroup", folder.parent], check=True)
        # The compiler is at another path, which this user may enter.
        inside = 'mount --bind "$1" "$2" && umask 077 && shift 2 && exec setpriv --reuid nobody --regid nogroup --clear-groups "$@"'
        prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", sysroot, rust]
    else:
        skipped("reproducible", "the second build is by the same user: only root can start it as another")
        rust.rmdir()
        rust.symlink_to(sysroot)
    build(command, folder, environment, prefix)


def built(folder, profile):
    """The files to compare, by name."""
    if not profile:
        return {file.name: file for file in (folder / "dist/release").iterdir()}
    files = (folder / "target" / profile).iterdir()
    return {file.name: file for file in files if file.is_file() and file.suffix in {"", ".so", ".a"} and not file.name.startswith(".")}


def image(debs, folder, **settings):
    """The archive of an image, and its bill of materials, built by a clone in `folder`."""
    clone = folder / "source"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    storage = folder / "storage.conf"
    # https://github.com/containers/storage/blob/main/docs/containers-storage.conf.5.md
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n', encoding="utf-8")
    environment = {**os.environ, **settings, "CONTAINERS_STORAGE_CONF": str(storage)}
    build(f"packaging/reproducible packaging/build-images {shlex.quote(str(debs))} --only minimal --archives {folder}/images", clone, environment)
    return {file.name: file for file in (folder / "images").iterdir()}


def same_image(debs):
    if os.geteuid() != 0:
        skipped("reproducible", "images are root's to make")
        return True
    with tempfile.TemporaryDirectory(dir=ROOT / ".work") as here, tempfile.TemporaryDirectory(prefix="tutti-rebuilt-", dir="/var/tmp") as there:
        two = Path(there) / "another/folder"
        two.mkdir(parents=True)
        os.umask(0o077)
        return compare(image(debs, Path(here)), image(debs, two, TZ="Asia/Kathmandu", LANG="tr_TR.UTF-8"), 2)


def digest(file):
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def compare(one, two, needed):
    both = set(one) & set(two) - {"SHA256SUMS"}
    missing = set(one) ^ set(two)
    missing -= NOT_AGAIN
    differ = sorted(name for name in both if digest(one[name]) != digest(two[name]))
    for name in differ:
        print(f"reproducible: {name} differs", flush=True)
        if shutil.which("diffoscope"):
            told = subprocess.run(["diffoscope", "--max-report-size", "20000", one[name], two[name]], capture_output=True, text=True, check=False).stdout
            print(told[:6000], flush=True)
    same = len(both) - len(differ)
    print(f"reproducible: {same} files have the same bytes, {len(differ)} differ, {len(missing)} are missing{': ' if missing else ''}{' '.join(sorted(missing))}")
    return not differ and not missing and same >= needed


def main():
    words = sys.argv[1:]
    (ROOT / ".work").mkdir(exist_ok=True)
    if words[:1] == ["--image"]:
        return 0 if same_image(Path(words[1]).resolve()) else 1
    profile = ""
    if words[:1] == ["--crates"]:
        crates, profile = words[1].split(), words[2]
        commands = [f"packaging/reproducible cargo build --profile {profile} {' '.join('-p ' + name for name in crates)}"] * 2
    else:
        given = " ".join(map(shlex.quote, words))
        # Once for both.
        for tool in ("helm", "mdbook", "nfpm", "cargo-zigbuild"):
            subprocess.run([ROOT / "packaging/reproducible", ROOT / "packaging/fetch-tool", tool], check=True, stdout=subprocess.DEVNULL)
        # A rehearsal: neither a contact nor a key is needed to compare bytes. Images contain the Debian of the day: see below.
        commands = [f"make release VERSION={version()} UNSIGNED=1 IMAGE= REHEARSAL=1 {given}", f"{rebuild()} REHEARSAL=1 {given}"]
    with tempfile.TemporaryDirectory(dir=ROOT / ".work") as here, tempfile.TemporaryDirectory(prefix="tutti-rebuilt-", dir="/var/tmp") as there:
        os.chmod(there, 0o755)
        one, two = Path(here) / "one", Path(there) / "another/source"
        first(one, commands[0])
        second(two, commands[1])
        same = compare(built(one, profile), built(two, profile), 1 if profile else 5)
        return 0 if (profile or same_image(one / "dist/deb")) and same else 1


if __name__ == "__main__":
    sys.exit(main())
