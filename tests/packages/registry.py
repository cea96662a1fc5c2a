#!/usr/bin/env python3
"""The images in place of NGINX Unit's, by way of a registry: `registry.py [--sizes]`, after `packaging/build-images` (root only; minutes).

Each is pushed to a registry on this machine, removed here, and pulled again, as a user of it does. Then it serves what is in
/docker-entrypoint.d in each way of docs/operate/unit-images.md: as root, without root, with a root that cannot be written to. Tells how many
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
from unit_users import ALONE, LOOPBACK, ROOT, STORAGE, Run, podman, ways

MEGABYTE = 1_000_000
# The most that the image without a language may have (docs/project/releasing.md).
MOST = {"minimal": 60}
ADDRESS = "127.0.0.1:5000"
SAYS = "from the registry"
CONFIGURATION = {"listeners": {"*:8080": {"pass": "routes"}}, "routes": [{"action": {"return": 200, "response_headers": {"X-From": SAYS}}}]}


def skipped(reason):
    not_here("registry", reason)


def pulled_bytes(name):
    """The bytes of an image that a registry sends: the layers as they are compressed, and the description."""
    accept = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"
    request = urllib.request.Request(f"http://{ADDRESS}/v2/tutti/manifests/{name}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        manifest = json.load(answer)
    return sum(part["size"] for part in [manifest["config"], *manifest["layers"]])


def tried(name, is_bounded):
    local, remote = f"localhost/tutti:{name}", f"{ADDRESS}/tutti:{name}"
    # As docs/project/releasing.md publishes it.
    words = ["buildah", "--storage-driver", STORAGE, "push", "--quiet", "--compression-format", "gzip", "--compression-level", "9", "--tls-verify=false"]
    subprocess.run([*words, local, f"docker://{remote}"], check=True)
    podman("pull", "--quiet", "--tls-verify=false", f"docker://{remote}")
    size = pulled_bytes(name) / MEGABYTE
    language = name.removeprefix(f"{version()}-")
    assert not is_bounded or size <= MOST.get(language, size), f"{name} is {size:.1f} MB compressed, more than {MOST[language]} MB"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        (Path(folder) / "site.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
        for flags in ways():
            with Run(remote, flags=["-v", f"{folder}:/docker-entrypoint.d:ro", *flags]) as run:
                run.configured().answering(8080)
                with urllib.request.urlopen("http://127.0.0.1:8080/", timeout=30) as answer:
                    assert answer.headers["X-From"] == SAYS, (flags, answer.headers)
                assert run.stop() == "0", (flags, run.said())
    podman("rmi", "--force", remote)
    print(f"registry: {name}: {size:.1f} MB compressed; pulled, and run in {len(ways())} ways", flush=True)


def inside(crane, bound, names):
    with tempfile.TemporaryDirectory() as folder:
        words = [crane, "registry", "serve", "--address", ADDRESS, "--disk", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as registry:
            try:
                wait(lambda: registry.poll() is not None or answers(), "the registry")
                for name in names:
                    tried(name, bound == "--sizes")
            finally:
                registry.terminate()
    print(f"registry: {len(names)} passed, 0 failed")


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
    bound = "--sizes" if sys.argv[1:] == ["--sizes"] else "-"
    crane = tool("crane", skipped)
    if not crane:
        return None
    tags = tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))["tag"]
    names = [f"{version()}-{tag['name']}" for tag in tags]
    there = [name for name in names if podman("image", "exists", f"localhost/tutti:{name}", check=False).returncode == 0]
    if not there:
        return skipped("there are no images (make images)")
    # A network of its own: the port and those of the containers are free. Cgroups are of one kind, which crun wants.
    mounts = f"mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && {LOOPBACK}"
    words = [*ALONE, mounts, "sh", sys.executable, __file__, "inside", crane, bound, *there]
    return subprocess.run(words, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
