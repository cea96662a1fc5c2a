#!/usr/bin/env python3
"""The container image as Compose runs it: `tests/packages/image.py`, after `packaging/build-image`.

What compose.yaml says is read from there: a read-only root, no capability, the folders, the time for a stop. A site is served by a user that
is not root, the health check passes, the log is on the terminal, and a stop answers what has begun. No layer of an image has anything of this
machine's (layers.py). Also lints the Dockerfile with hadolint, which is fetched where it is not installed. What cannot run here is reported as
skipped. The chart has a test of its own: chart.py.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from chart import registry
from chart import skipped as not_here
from chart import tool as fetched_tool
from chart import version
from layers import no_layer_has_this_machine, there

try:
    import yaml
except ModuleNotFoundError:
    yaml = None

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

from harness.servers import free_port  # noqa: E402

PODMAN = ["podman", "--storage-driver", os.environ.get("STORAGE_DRIVER", "vfs"), "--cgroup-manager", "cgroupfs", "--log-level", "error"]
# The cgroups, the limits and the network are this machine's.
FLAGS = ["--no-healthcheck", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--cgroups=disabled", "--network", "host"]


def skipped(reason):
    not_here("image", reason)


def podman(*words, check=True):
    return subprocess.run([*PODMAN, *words], capture_output=True, text=True, check=check, timeout=120)


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


def composed(folder, name):
    """packaging/image/compose.yaml as flags for podman: `./x` is in `folder`, volumes have the container's `name`. Also seconds for a stop, and names of volumes."""
    whole = yaml.safe_load((ROOT / "packaging/image/compose.yaml").read_text(encoding="utf-8"))
    service = whole.pop("services")["tutti"]
    # The one that is tried is made here; `packaging/push-images` publishes it under this name.
    assert service.pop("image") == f"{registry()}:{version()}"
    # On this machine's network each port is the container's own; what maps them needs a bridge.
    own = (ROOT / "packaging/image/Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    exposed = [line.split()[1] for line in own.splitlines() if line.startswith("EXPOSE ")]
    assert [port.split(":")[1] for port in service.pop("ports")] == exposed, "ports lead to what the image exposes"
    assert service.pop("restart") == "unless-stopped"
    grace = re.fullmatch(r"(\d+)s", service.pop("stop_grace_period"))[1]
    flags, named = [], whole.pop("volumes")
    for volume in service.pop("volumes"):
        source, _, rest = volume.partition(":")
        if source.startswith("./"):
            flags += ["-v", f"{folder}/{source[2:]}:{rest}"]
        else:
            assert source in named, f"compose.yaml has no volume `{source}`"
            flags += ["-v", f"{name}-{source}:{rest}"]
    if service.pop("read_only"):
        flags += ["--read-only", "--read-only-tmpfs=false"]
    flags += [word for place in service.pop("tmpfs") for word in ("--tmpfs", place)]
    flags += [word for capability in service.pop("cap_drop") for word in ("--cap-drop", capability)]
    # Docker's `:true` is podman's default.
    flags += [word for option in service.pop("security_opt") for word in ("--security-opt", option.removesuffix(":true"))]
    assert not service and not whole, f"compose.yaml says what no test tries: {service or whole}"
    return flags, grace, [f"{name}-{volume}" for volume in named]


def serves_and_drains(folder):
    port = free_port()
    (folder / "site").mkdir()
    (folder / "conf.d").mkdir()
    (folder / "site/index.php").write_text("<?php if (isset($_GET['slow'])) sleep(3); echo 'PHP says ', 6 * 7;")
    site = {"type": "php", "root": "/srv/site", "script": "index.php", "processes": 2}
    configuration = {"listeners": {f"127.0.0.1:{port}": {"pass": "applications/site"}}, "applications": {"site": site}}
    (folder / "conf.d/site.json").write_text(json.dumps(configuration))
    name = f"tutti-test-{os.getpid()}"
    flags, grace, volumes = composed(folder, name)
    podman("run", "-d", "--name", name, *FLAGS, *flags, f"localhost/tutti:{version()}")
    try:
        health = json.loads(podman("inspect", "--type", "image", f"localhost/tutti:{version()}").stdout)[0]["Healthcheck"]["Test"][1:]
        for _ in range(300):
            if podman("exec", name, *health, check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("not healthy: " + podman("logs", name).stderr)
        assert get(port, "/") == "PHP says 42"
        who = podman("exec", name, "sh", "-c", "id -u; touch /usr/nothing 2>/dev/null || echo read-only").stdout.split()
        assert who == ["10001", "read-only"], who
        installed = podman("exec", name, "dpkg-query", "-W", "-f", "${Package}\n").stdout.split()
        assert not [package for package in installed if package.endswith("-dbgsym")], f"debug information is for those who look for it: {installed}"
        answers = []
        slow = threading.Thread(target=lambda: answers.append(get(port, "/?slow")))
        slow.start()
        while '"active": 1' not in podman("exec", name, "tutti", "status", "--json", "--control", "unix:/run/tutti/control.sock").stdout:
            time.sleep(0.05)
        podman("stop", "--time", grace, name)
        slow.join()
        assert answers == ["PHP says 42"], answers
        logs = podman("logs", name)
        assert "stopping gracefully" in logs.stderr + logs.stdout, logs
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip() == "0"
    finally:
        podman("rm", "-f", name, check=False)
        podman("volume", "rm", "-f", *volumes, check=False)
    print("image: a site is served without root and without a file written; a stop answers what has begun")


def is_built_as_the_guide_says():
    """docs/start/install.md: the archive is loaded, and Docker's command, with podman in its place, makes a small image of the same packages."""
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    archive, packages = ROOT / "dist/tutti-image.tar", ROOT / "dist/deb"
    if not archive.exists() or not list(packages.glob("tutti_*.deb")):
        return skipped("dist/ has no packages or no image (make dist image): the guide's commands are not run")
    assert "`dist/tutti-image.tar`, for `docker load` and `podman load`" in page
    podman("load", "--input", str(archive))
    build, small = re.search(r"`docker (build [^`]+)`, with `(--build-arg [^`]+)`", page).groups()
    debian = re.search(r"[~.]deb(\d+)", next(packages.glob("tutti_*.deb")).name)[1]
    argument = re.search(r"`(--build-arg DEBIAN=)13`", page)[1]
    # Debian's image is this machine's own root, which `make image` has put there: no registry is asked.
    words = ["build", "--pull=never", "--isolation", "chroot", "--format", "docker", *([] if debian == "12" else shlex.split(argument + debian)), *shlex.split(small), *shlex.split(build)[1:]]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "packaging/registries", {"12": "bookworm", "13": "trixie"}[debian], folder], check=True)
        secrets = [f"--secret=id={file.name},src={file}" for file in sorted(Path(folder).iterdir())]
        done = subprocess.run([*PODMAN, *words[:1], *secrets, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    told = podman("run", "--rm", *FLAGS, "--entrypoint", "tutti", "tutti", "--version").stdout
    assert told.strip() == f"tutti version: {version()}", told
    print("image: the archive is loaded, and the guide's build command makes an image")


def dockerfile():
    hadolint = fetched_tool("hadolint", skipped)
    if not hadolint:
        return
    subprocess.run([hadolint, ROOT / "packaging/image/Dockerfile"], check=True)
    print("image: the Dockerfile is linted")


def main():
    if "inside" not in sys.argv:
        dockerfile()
        if os.geteuid() != 0:
            skipped("containers are root's here")
            return 0
        if yaml is None:
            skipped("python3 has no `yaml` to read compose.yaml with (package python3-yaml)")
            return 0
        # A mount namespace whose cgroups are of one kind, which crun wants.
        inside = 'mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", sys.executable, __file__, "inside"], check=False).returncode
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        serves_and_drains(Path(folder))
    is_built_as_the_guide_says()
    no_layer_has_this_machine(there())
    print("image: 3 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
