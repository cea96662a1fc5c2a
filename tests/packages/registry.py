#!/usr/bin/env python3
"""The images in place of NGINX Unit's, by way of a registry (root only; minutes): `registry.py --archives FOLDER [--sizes] [NAME…]`, after `make images`.

Each is pushed to a registry on this machine as docs/project/releasing.md publishes it, and pulled and checked by the commands of VERIFY.md. Then it
serves an application of its language (languages.py) in each way of docs/operate/unit-images.md: as root, without root, with a root that cannot be
written to. Its bill of materials has what dpkg and npm find in it. Tells how many bytes are pulled for each; `--sizes` holds them to what is promised
of a release, which other profiles are too large for.

`registry.py --build DEBS [NAME…]` does the same with each tag of these packages, which it builds and removes again, so that the disk needs space for
one of them. `registry.py --candidates OLD NEW` replaces the image of one version by that of another, on the same volume, and goes back.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
from hashlib import sha256
from pathlib import Path

from chart import skipped as not_here
from chart import tool, version
from entrypoint import get, wait
from languages import of_package
from layers import no_layer_has_this_machine
from machine import Unavailable
from run import component
from unit_users import ALONE, FLAGS, LOOPBACK, PODMAN, ROOT, Run, podman, ways

MEGABYTE = 1_000_000
TAGS = {tag["name"]: tag for tag in tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))["tag"]}
ADDRESS = "127.0.0.1:5000"
REMOTE = f"{ADDRESS}/tutti"
SAYS = "from the registry"
ARCHIVE = re.compile(r"tutti-image-((\d+\.\d+\.\d+(?:-[a-z]+\.\d+)?)-([a-z0-9.]+))-(\w+)\.tar")
SOCKET = "/var/run/control.unit.sock"


def skipped(reason):
    not_here("registry", reason)


def run(*words, check=True, **settings):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


@contextlib.contextmanager
def registry(crane):
    """A registry at ADDRESS, empty, without TLS."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "registries.conf"
        settings.write_text(f'[[registry]]\nlocation = "{ADDRESS}"\ninsecure = true\n', encoding="utf-8")
        os.environ["CONTAINERS_REGISTRIES_CONF"] = str(settings)
        words = [crane, "registry", "serve", "--address", ADDRESS, "--disk", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                wait(lambda: server.poll() is not None or answers(), "the registry")
                yield
            finally:
                server.terminate()


def answers():
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}/v2/", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def manifest(name):
    """Returns what the registry says of a tag."""
    accept = "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
    with urllib.request.urlopen(urllib.request.Request(f"http://{REMOTE.replace('/', '/v2/', 1)}/manifests/{name}", headers={"Accept": accept}), timeout=30) as answer:
        return json.load(answer)


def publish(folder):
    """Publishes the archives in a folder: the list of their digests, which a release signs, is there first. Returns it."""
    listed = run(ROOT / "packaging/push-images", "--digests", folder).stdout
    name = f"tutti-{ARCHIVE.fullmatch(next(folder.glob('tutti-image-*.tar')).name)[2]}-images.txt"
    (folder / name).write_text(listed, encoding="utf-8")
    (folder / "SHA256SUMS").write_text(run("sha256sum", name, cwd=folder).stdout, encoding="utf-8")
    run(ROOT / "packaging/push-images", folder, REMOTE, env={**os.environ, "TLS_VERIFY": "false"})
    return folder / name


def verify(listed, name):
    """The commands of VERIFY.md for an image, with podman in Docker's place."""
    section = (ROOT / "VERIFY.md").read_text(encoding="utf-8").partition("\n## Container images\n")[2].partition("\n## ")[0]
    lines = [line[2:] for block in re.findall(r"^```console\n(.*?)^```", section, re.M | re.S) for line in block.splitlines() if line.startswith("$ ")]
    script = "\n".join(lines)
    for old, new in [("REGISTRY", REMOTE), (f"tutti-{version()}-images.txt", listed.name), (f"{version()}-php8.2", name), ("docker ", f"{shlex.join(PODMAN)} ")]:
        assert old in script, f"VERIFY.md: no `{old}` in {script}"
        script = script.replace(old, new)
    return run("bash", "-euo", "pipefail", "-c", script, cwd=listed.parent, check=False)


def remove(image):
    """Removes an image that was pulled, by all its names: it was pulled by its digest, too."""
    podman("rmi", "--force", podman("image", "inspect", "--format", "{{.Id}}", image).stdout.strip())


def put_application(folder, tag):
    """Writes what a container of the tag serves, and its configuration; the path to ask for, and what is answered there."""
    if not tag["tutti"]:
        (folder / "srv").mkdir()
        return {"routes": [{"action": {"return": 200, "response_headers": {"X-From": SAYS}}}]}, "/", SAYS
    language = of_package(tag["tutti"][0])
    files = {**language.files, **({"/srv/wasm/hello.wasm": component()} if language.package == "tutti-wasm" else {})}
    for path, content in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return {"applications": {"site": language.application}, "routes": [{"action": {"pass": "applications/site"}}]}, language.path, language.says


def serves(image, tag):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        configuration, path, says = put_application(Path(folder), tag)
        (Path(folder) / "site.json").write_text(json.dumps({"listeners": {"*:8080": {"pass": "routes"}}, **configuration}), encoding="utf-8")
        for command in of_package(tag["tutti"][0]).commands if tag["tutti"] else []:
            podman("run", "--rm", *FLAGS, "-v", f"{folder}/srv:/srv", "--entrypoint", "sh", image, "-c", command)
        for flags in ways():
            mounts = ["-v", f"{folder}/site.json:/docker-entrypoint.d/site.json:ro", "-v", f"{folder}/srv:/srv:ro"]
            with Run(image, flags=[*mounts, *flags]) as container:
                container.configured().answering(8080, path)
                with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", timeout=30) as answer:
                    body = answer.read().decode()
                    assert says in body or answer.headers["X-From"] == says, (flags, answer.headers, body)
                assert container.stop() == "0", (flags, container.said())
    return says


def bill_is_complete(image, archive, tag):
    """The bill of materials has the packages that dpkg and npm list in the image, and no others."""
    bill = json.loads(archive.with_name(archive.name.replace(".tar", ".cdx.json")).read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["hashes"][0]["content"] == run("sha256sum", archive).stdout.split()[0], "the bill is of another archive"
    listed = {(part["purl"].partition(":")[2].partition("/")[0], part["name"], part["version"]) for part in bill["components"]}

    def inside(program, *words):
        return podman("run", "--rm", *FLAGS, "--entrypoint", program, image, *words).stdout.splitlines()

    found = {("deb", *line.split()) for line in inside("dpkg-query", "-W", "-f", "${Package} ${Version}\n")}
    if "node" in tag:
        found -= {("deb", "nodejs", tag["node"])}
        # PATH:NAME@VERSION, or PATH:ALIAS@npm:NAME@VERSION; the folder of all has no version, and one package is Tutti's own.
        named = [re.fullmatch(r"[^:]+:(?:[^:]+@npm:)?([^:]+)@([^:@]+)(?::.*)?", line) for line in inside("npm", "ls", "--global", "--all", "--parseable", "--long")]
        found |= {("npm", *name.groups()) for name in named if name and name[1] != "unit-http"}
        # Node.js itself, of which only the program is there.
        listed = {part for part in listed if not part[1].startswith("node-linux-")}
    assert listed == found, f"{image}: the bill of materials differs: {sorted(listed ^ found)[:20]}"
    return len(listed)


def one_tag(archive, bound):
    archive, (name, _, tag, _) = Path(archive), ARCHIVE.fullmatch(Path(archive).name).groups()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / archive.name).symlink_to(archive)
        listed = publish(Path(folder))
        done = verify(listed, name)
        assert done.returncode == 0, f"{name}: the commands of VERIFY.md fail: {done.stdout}{done.stderr}"
    image = f"{REMOTE}:{name}"
    described = manifest(manifest(name)["manifests"][0]["digest"])
    # The layers as they are compressed, and the description.
    size = sum(part["size"] for part in [described["config"], *described["layers"]]) / MEGABYTE
    assert bound != "--sizes" or size <= TAGS[tag]["most"], f"{name} is {size:.1f} MB compressed, more than {TAGS[tag]['most']} MB"
    try:
        count, says = bill_is_complete(image, archive, TAGS[tag]), serves(image, TAGS[tag])
    finally:
        remove(image)
    print(f"registry: {name}: {size:.1f} MB compressed; pulled, and {says!r} is served in {len(ways())} ways; {count} packages are in its bill of materials", flush=True)


def for_another_processor(archive, folder):
    """The same image under the name of another processor: only the description says for what an image is."""
    name, _, _, processor = ARCHIVE.fullmatch(archive.name).groups()
    other = "amd64" if processor == "arm64" else "arm64"
    with tarfile.open(archive) as source, tarfile.open(folder / f"tutti-image-{name}-{other}.tar", "w") as target:
        described, = json.load(source.extractfile("manifest.json"))
        config = json.dumps({**json.load(source.extractfile(described["Config"])), "architecture": other}).encode()
        files = {layer: source.extractfile(layer).read() for layer in described["Layers"]}
        files[f"{sha256(config).hexdigest()}.json"] = config
        files["manifest.json"] = json.dumps([{**described, "Config": f"{sha256(config).hexdigest()}.json"}]).encode()
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            target.addfile(entry, io.BytesIO(data))
    return Path(target.name)


def two_processors(archive, crane):
    """Archives of both become one tag, whose digest is known before; what is not listed, or lacks a processor, is not published; another image under the tag is found."""
    archive, push = Path(archive), [ROOT / "packaging/push-images"]
    name, version, _, _ = ARCHIVE.fullmatch(archive.name).groups()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / archive.name).symlink_to(archive)
        other = for_another_processor(archive, folder)

        def refused(because):
            done = run(*push, folder, REMOTE, check=False, env={**os.environ, "TLS_VERIFY": "false"})
            assert done.returncode == 1 and because in done.stderr and "; hint: " in done.stderr, (because, done)
            assert run(crane, "ls", REMOTE, check=False).stdout == "", "what is refused is not published"

        refused("there is no list of digests")
        (folder / f"tutti-{version}-images.txt").write_text(f"sha256:{'0' * 64} {name}\n")
        refused(f"are not those that tutti-{version}-images.txt lists")
        listed = publish(folder)
        parts = manifest(name)["manifests"]
        assert sorted(part["platform"]["architecture"] for part in parts) == ["amd64", "arm64"], parts
        assert len({part["digest"] for part in parts}) == 2, parts
        # `crane digest` is another way of VERIFY.md.
        assert listed.read_text() == f"{run(crane, 'digest', f'{REMOTE}:{name}').stdout.strip()} {name}\n"
        done = verify(listed, name)
        assert done.returncode == 0, f"the commands of VERIFY.md fail: {done.stdout}{done.stderr}"
        # A registry that serves another image under the tag.
        remove(f"{REMOTE}:{name}")
        run(crane, "tag", f"{REMOTE}:{other.stem.removeprefix('tutti-image-')}", name)
        done = verify(listed, name)
        assert done.returncode != 0, f"another image passes the commands of VERIFY.md: {done.stdout}{done.stderr}"
        for image in (f"{REMOTE}:{name}", f"{REMOTE}@{listed.read_text().split()[0]}"):
            remove(image)
        other.rename(folder / f"tutti-image-{version}-another-{other.stem.rpartition('-')[2]}.tar")
        done = run(*push, folder, REMOTE, check=False, env={**os.environ, "TLS_VERIFY": "false"})
        assert done.returncode == 1 and "has no image for" in done.stderr, done
    print(f"registry: {name}: one tag has the images of two processors, and another image in its place is found", flush=True)


def candidates(*archives):
    """The image of one version serves, that of the next takes its place on the same volume, and the first comes back: configurations stay."""
    volume = f"tutti-test-{os.getpid()}"
    old, new = map(Path, archives)
    status = 200
    try:
        for archive in (old, new, old):
            name, version, _, _ = ARCHIVE.fullmatch(archive.name).groups()
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / archive.name).symlink_to(archive)
                listed = publish(Path(folder))
                done = verify(listed, name)
                assert done.returncode == 0, f"{name}: the commands of VERIFY.md fail: {done.stdout}{done.stderr}"
            with Run(f"{REMOTE}:{name}", flags=["-v", f"{volume}:/var/lib/unit"]) as container:
                if status == 200:
                    container.configured()
                else:
                    container.answering(8080, status=status)
                packages = podman("exec", container.name, "dpkg-query", "-W", "-f", "${Version}", "tutti").stdout
                assert packages.startswith(f"{version.replace('-', '~')}-"), (packages, version)
                status += 1
                configuration = {"listeners": {"*:8080": {"pass": "routes"}}, "routes": [{"action": {"return": status}}]}
                words = ["curl", "-sS", "-X", "PUT", "--data-binary", json.dumps(configuration), "--unix-socket", SOCKET, "http://localhost/config"]
                podman("exec", container.name, *words)
                assert get(8080)[0] == status
                assert container.stop() == "0", container.said()
            remove(f"{REMOTE}:{name}")
            print(f"registry: {name} serves, with the volume of the one before", flush=True)
    finally:
        podman("volume", "rm", "--force", volume, check=False)


def build(debs, name, folder):
    """Builds a tag of these packages; only its archive stays."""
    done = run(ROOT / "packaging/build-images", debs, "--only", name, "--archives", folder)
    found = list(folder.glob(f"tutti-image-*-{name}-*.tar"))
    assert len(found) == 1, f"{name} was not built: {done.stdout}{done.stderr}"
    podman("rmi", "--force", f"localhost/tutti:{ARCHIVE.fullmatch(found[0].name)[1]}")
    return found[0]


def wanted(options):
    """The tags to try: those of which there is an archive, or which these packages are for. No image of a tag is left out without a word."""
    if options.archives:
        names = [name for name in TAGS if list(options.archives.glob(f"tutti-image-{version()}-{name}-*.tar"))]
    else:
        debian, = {re.search(r"[~.]deb(\d+)", file.name)[1] for file in options.build.glob("tutti_*.deb")}
        names = [name for name, tag in TAGS.items() if tag["debian"] == int(debian)]
    names = [name for name in names if not options.names or name in options.names]
    if not names:
        skipped("there are no images (make images)")
    if "wasm" in names:
        try:
            component()
        except Unavailable as reason:
            skipped(str(reason))
            names.remove("wasm")
    return names


def each_tag(crane, options, folder):
    for number, name in enumerate(wanted(options)):
        if options.build:
            archive = build(options.build, name, folder)
            no_layer_has_this_machine([archive])
        else:
            archive, = options.archives.resolve().glob(f"tutti-image-{version()}-{name}-*.tar")
        if number == 0:
            yield alone(crane, "two_processors", archive, crane)
        yield alone(crane, "one_tag", archive, *(["--sizes"] if options.sizes else [""]))
        if options.build:
            archive.unlink()


def alone(*words):
    """Runs a case of this file in a network of its own: the port and those of the containers are free. Cgroups are of one kind, which crun wants."""
    mounts = f"mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && {LOOPBACK}"
    return subprocess.run([*ALONE, mounts, "sh", sys.executable, __file__, "inside", *map(str, words)], check=False).returncode == 0


def main():
    if sys.argv[1:2] == ["inside"]:
        crane, case, *words = sys.argv[2:]
        with registry(crane):
            globals()[case](*words)
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archives", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--candidates", type=Path, nargs=2)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if os.geteuid() != 0:
        return skipped("containers are root's here")
    crane = tool("crane", skipped)
    if not crane:
        return None
    with tempfile.TemporaryDirectory() as folder:
        if options.candidates:
            passed = [alone(crane, "candidates", *(build(debs, "minimal", Path(folder) / str(number)) for number, debs in enumerate(options.candidates)))]
        else:
            passed = list(each_tag(crane, options, Path(folder)))
    print(f"registry: {passed.count(True)} passed, {passed.count(False)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
