#!/usr/bin/env python3
"""The images in place of NGINX Unit's, by way of a registry: `registry.py [--sizes] [NAME…]`, after `packaging/build-images` (root only; minutes).

Each is pushed to a registry on this machine, removed here, and pulled again, as a user of it does. Then it serves an application of its language
(languages.py) in each way of docs/operate/unit-images.md: as root, without root, with a root that cannot be written to. Tells how many
bytes are pulled for each; `--sizes` holds them to what is promised of a release, which other profiles are too large for.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from pathlib import Path

from chart import skipped as not_here
from chart import tool, version
from entrypoint import wait
from languages import of_package
from machine import Unavailable
from run import component
from unit_users import ALONE, FLAGS, LOOPBACK, ROOT, STORAGE, Run, podman, ways

MEGABYTE = 1_000_000
TAGS = tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))["tag"]
ADDRESS = "127.0.0.1:5000"
SAYS = "from the registry"


def skipped(reason):
    not_here("registry", reason)


def manifest(name, accept):
    """Returns what the registry says of a tag."""
    request = urllib.request.Request(f"http://{ADDRESS}/v2/tutti/manifests/{name}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def pulled_bytes(name):
    """The bytes of an image that a registry sends: the layers as they are compressed, and the description."""
    found = manifest(name, "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json")
    return sum(part["size"] for part in [found["config"], *found["layers"]])


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


def tried(tag, is_bounded):
    name = f"{version()}-{tag['name']}"
    local, remote = f"localhost/tutti:{name}", f"{ADDRESS}/tutti:{name}"
    # As docs/project/releasing.md publishes it.
    words = ["buildah", "--storage-driver", STORAGE, "push", "--quiet", "--compression-format", "gzip", "--compression-level", "9", "--tls-verify=false"]
    subprocess.run([*words, local, f"docker://{remote}"], check=True)
    podman("pull", "--quiet", "--tls-verify=false", f"docker://{remote}")
    size = pulled_bytes(name) / MEGABYTE
    assert not is_bounded or size <= tag.get("most", size), f"{name} is {size:.1f} MB compressed, more than {tag['most']} MB"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        configuration, path, says = put_application(Path(folder), tag)
        (Path(folder) / "site.json").write_text(json.dumps({"listeners": {"*:8080": {"pass": "routes"}}, **configuration}), encoding="utf-8")
        for command in of_package(tag["tutti"][0]).commands if tag["tutti"] else []:
            podman("run", "--rm", *FLAGS, "-v", f"{folder}/srv:/srv", "--entrypoint", "sh", remote, "-c", command)
        for flags in ways():
            mounts = ["-v", f"{folder}/site.json:/docker-entrypoint.d/site.json:ro", "-v", f"{folder}/srv:/srv:ro"]
            with Run(remote, flags=[*mounts, *flags]) as run:
                run.configured().answering(8080, path)
                with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", timeout=30) as answer:
                    body = answer.read().decode()
                    assert says in body or answer.headers["X-From"] == says, (flags, answer.headers, body)
                assert run.stop() == "0", (flags, run.said())
    podman("rmi", "--force", remote)
    print(f"registry: {name}: {size:.1f} MB compressed; pulled, and {says!r} is served in {len(ways())} ways", flush=True)


def one_tag_for_two_processors(name):
    """`packaging/push-images`: archives of both become one tag, and one without the other is refused. Only the description says for what an image is."""
    buildah = ["buildah", "--storage-driver", STORAGE]
    local = f"localhost/tutti:{name}"
    made = subprocess.run([*buildah, "from", "--pull-never", local], capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run([*buildah, "config", "--arch", "arm64", made], check=True)
    other = subprocess.run([*buildah, "commit", "--rm", "--quiet", made], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        for image, processor in ((local, "amd64"), (other, "arm64")):
            archive = Path(folder) / f"tutti-image-{name}-{processor}.tar"
            subprocess.run([*buildah, "push", "--quiet", image, f"docker-archive:{archive}:tutti:{name}"], check=True)
            subprocess.run(["gzip", "-1", archive], check=True)
        subprocess.run([*buildah, "rmi", other], check=True, stdout=subprocess.DEVNULL)
        push = [ROOT / "packaging/push-images", folder, f"{ADDRESS}/tutti"]
        environment = {**os.environ, "TLS_VERIFY": "false"}
        subprocess.run(push, check=True, env=environment)
        listed = manifest(name, "application/vnd.oci.image.index.v1+json")["manifests"]
        assert [part["platform"]["architecture"] for part in listed] == ["amd64", "arm64"], listed
        assert len({part["digest"] for part in listed}) == 2, listed
        archive = Path(folder) / f"tutti-image-{name}-arm64.tar.gz"
        archive.rename(Path(folder) / "tutti-image-another-arm64.tar.gz")
        refused = subprocess.run(push, capture_output=True, text=True, env=environment, check=False)
        assert refused.returncode == 1 and "has no image for" in refused.stderr, refused
    print(f"registry: {name}: one tag has the images of two processors", flush=True)


def inside(crane, bound, names):
    tags = [tag for tag in TAGS if tag["name"] in names]
    with tempfile.TemporaryDirectory() as folder:
        words = [crane, "registry", "serve", "--address", ADDRESS, "--disk", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as registry:
            try:
                wait(lambda: registry.poll() is not None or answers(), "the registry")
                for tag in tags:
                    tried(tag, bound == "--sizes")
                one_tag_for_two_processors(f"{version()}-{tags[0]['name']}")
            finally:
                registry.terminate()
    print(f"registry: {len(tags) + 1} passed, 0 failed")


def answers():
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}/v2/", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def main():
    if os.geteuid() != 0:
        return skipped("containers are root's here")
    if sys.argv[1:2] == ["inside"]:
        return inside(sys.argv[2], sys.argv[3], sys.argv[4:])
    bound = "--sizes" if "--sizes" in sys.argv else "-"
    only = set(sys.argv[1:]) - {"--sizes"}
    crane = tool("crane", skipped)
    if not crane:
        return None
    there = [tag["name"] for tag in TAGS if podman("image", "exists", f"localhost/tutti:{version()}-{tag['name']}", check=False).returncode == 0]
    there = [name for name in there if not only or name in only]
    if not there:
        return skipped("there are no images (make images)")
    if "wasm" in there:
        try:
            component()
        except Unavailable as reason:
            skipped(str(reason))
            there.remove("wasm")
    # A network of its own: the port and those of the containers are free. Cgroups are of one kind, which crun wants.
    mounts = f"mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && {LOOPBACK}"
    words = [*ALONE, mounts, "sh", sys.executable, __file__, "inside", crane, bound, *there]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
