#!/usr/bin/env python3
"""Public users of NGINX Unit's images on those that replace them: `unit_users.py`, after `packaging/build-images` (root only; minutes).

Their files, in unit-users/, are built with only the `FROM` line changed, and run by podman. What each has to show is a function here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from chart import skipped as not_here
from chart import version
from entrypoint import get, wait

ROOT = Path(__file__).resolve().parent.parent.parent
USERS = Path(__file__).resolve().parent / "unit-users"
STORAGE = os.environ.get("STORAGE_DRIVER", "vfs")
PODMAN = ["podman", "--storage-driver", STORAGE, "--cgroup-manager", "cgroupfs", "--log-level", "error"]
# The cgroups and the limits are this machine's; the network is that of this test.
FLAGS = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096", "--cgroups=disabled", "--network", "host"]


def podman(*words, check=True):
    done = subprocess.run([*PODMAN, *words], capture_output=True, text=True, check=False, timeout=300)
    assert not check or done.returncode == 0, f"{words}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done


# The Debian of the tags that are used here.
SUITE = "bookworm"
# A network without anything else in it, for the ports that they have published.
ALONE = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c"]
LOOPBACK = 'ip link set lo up && exec "$@"'


def settings(suite, folder):
    """Flags of buildah: a user's build has the registries of this machine, which the images do not know."""
    named = subprocess.run([ROOT / "packaging/registries"], capture_output=True, text=True, check=True).stdout.splitlines()
    subprocess.run([ROOT / "packaging/registries", suite, folder], check=True)
    mounted = {**{file: file for file in named}, f"{folder}/sources.list": "/etc/apt/sources.list", f"{folder}/ca.crt": "/etc/ssl/certs/ca-certificates.crt"}
    return [word for file, place in mounted.items() if os.path.exists(file) for word in ("--volume", f"{os.path.realpath(file)}:{place}:ro")]


def build(case, user, dockerfile, base):
    """Builds a user's files on the image `base`. Nothing but the `FROM` line differs from what is published."""
    with tempfile.TemporaryDirectory() as folder:
        context = shutil.copytree(USERS / user, Path(folder) / "context")
        if user == "nextcloud":
            # The configuration of Unit's documentation for it.
            documented = (ROOT / "tests/config/howto-nextcloud.case").read_text(encoding="utf-8").splitlines()[1]
            configuration = documented.replace("/path/to/app", "/var/www").replace("nc_user", "unit")
            (context / "config.json").write_text(json.dumps({**json.loads(configuration), "access_log": "/var/log/unit.log"}), encoding="utf-8")
        text = (context / dockerfile).read_text(encoding="utf-8")
        changed, count = re.subn(r"^FROM \S+", f"FROM localhost/{base}", text, flags=re.M)
        assert count == 1, f"{user}/{dockerfile} has {count} base images"
        # A hint for BuildKit's cache, which Debian's buildah does not know.
        changed = changed.replace("COPY --link ", "COPY ")
        (Path(folder) / "Dockerfile").write_text(changed, encoding="utf-8")
        name = f"localhost/tutti-test-{case}"
        # No other server listens while it is built, and its base has all that it would install.
        alone = [*ALONE, LOOPBACK, "sh"] if base.startswith("tutti-test-") else []
        words = [*alone, "buildah", "--storage-driver", STORAGE, "build", "--pull-never", "--isolation", "chroot", "--format", "docker", "--tag", name]
        words += settings(SUITE, Path(folder) / "settings")
        done = subprocess.run([*words, "--file", str(Path(folder) / "Dockerfile"), str(context)], capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, f"{user}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return name


class Run:
    """A container of an image; it is removed at the end."""

    def __init__(self, image, *words, flags=()):
        self.name = f"tutti-test-{os.getpid()}-{time.monotonic_ns()}"
        podman("run", "-d", "--name", self.name, *FLAGS, *flags, image, *words)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(self.said()[-4000:])
        podman("rm", "-f", "-v", "--time", "0", self.name, check=False)

    def said(self):
        done = podman("logs", self.name, check=False)
        return done.stdout + done.stderr

    def configured(self):
        """Waits until the entry point has done its work, and the server that stays begins."""
        wait(lambda: "the first start is configured" in self.said() or not self.runs(), "end of the first start")
        return self

    def answering(self, port, path="/", status=200):
        wait(lambda: get(port, path)[0] == status or not self.runs(), f"{status} for {path} at {port}")
        found, body = get(port, path)
        assert found == status, (port, path, found, body)
        return body

    def runs(self):
        return podman("inspect", "--format", "{{.State.Running}}", self.name).stdout.strip() == "true"

    def stop(self, seconds=30):
        podman("stop", "--time", str(seconds), self.name)
        return podman("inspect", "--format", "{{.State.ExitCode}}", self.name).stdout.strip()


def reads_the_status_only(port, path="/status"):
    """A listener whose `proxy` is the control socket publishes the status, and lets nothing be changed."""
    status, body = get(port, path)
    assert status == 200 and "accepted" in json.dumps(json.loads(body)), (status, body)
    for forbidden, method in [("/config", "GET"), ("/config", "DELETE"), ("/certificates", "GET"), (path, "PUT"), (path, "DELETE"), ("/status/../config", "GET")]:
        status, body = get(port, forbidden, method)
        assert status >= 400, (forbidden, method, status, body)


def netbox(image):
    with Run(image) as run:
        body = run.answering(8080)
        # `--user unit --group root` are its flags.
        assert body == "netbox /opt/netbox/venv 999:0", body
        assert "navy" in run.answering(8080, "/static/netbox.css")
        reads_the_status_only(8081, "/status/")
        said = run.said()
        assert "Unit configuration loaded successfully" in said and '"GET / HTTP/1.1" 200' in said, said
        assert run.stop() == "0"
        # Its entry script is that of every start: the state that is kept is replaced.
        podman("start", run.name)
        run.answering(8080)


def posthog(image):
    with Run(image) as run:
        assert run.configured().answering(8000) == "wsgi 65534 8001"
        metrics = run.answering(8001, "/metrics")
        assert "unit_application_posthog_processes_running 4" in metrics, metrics
        assert get(8001, "/other")[0] == 404
        reads_the_status_only(8181)
        assert "ignoring '/docker-entrypoint.d/unit.json.tpl'" in run.said()
        assert run.stop() == "0"
    flags = ["-e", "NGINX_UNIT_PYTHON_PROTOCOL=asgi", "-e", "NGINX_UNIT_APP_PROCESSES=1"]
    with Run(image, flags=flags) as run:
        assert run.configured().answering(8000) == "asgi"


def techempower(image):
    with Run(image) as run:
        assert run.configured().answering(8080, "/index.php") == "pdo opcache 99M www-data"
        with subprocess.Popen(["curl", "-s", "http://127.0.0.1:8080/index.php?slow"], stdout=subprocess.PIPE, text=True) as slow:
            status = lambda: json.loads(podman("exec", run.name, "curl", "-s", "--unix-socket", "/var/run/control.unit.sock", "http://localhost/status").stdout)
            wait(lambda: status()["applications"]["benchmark"]["requests"]["active"] == 1, "the request")
            assert run.stop() == "0"
            assert slow.communicate()[0] == "pdo opcache 99M www-data", "a stop answers what has begun"


def techempower_built(image):
    with Run(image) as run:
        assert run.answering(8080, "/index.php") == "pdo opcache 99M www-data"


def csrgenerator(image):
    with Run(image) as run:
        assert run.configured().answering(8080) == "flask"
        podman("restart", "--time", "20", run.name)
        assert run.answering(8080) == "flask"
        assert "is not empty: /docker-entrypoint.d is not read" in run.said()


def nextcloud(image):
    with Run(image, flags=["-w", "/var/www"]) as run:
        assert run.configured().answering(80) == "index 3072M unit "
        assert run.answering(80, "/apps/files") == "index 3072M unit "
        assert run.answering(80, "/status.php/x") == "status of /x"
        assert run.answering(80, "/ocs-provider/") == "ocs"
        assert "<svg" in run.answering(80, "/core/logo.svg")
        assert get(80, "/config/config.php")[0] == 404
        assert '"GET /core/logo.svg HTTP/1.1" 200' in run.said(), "the log of Unit is the terminal"
        assert "unit" in podman("exec", "-u", "unit", run.name, "php", "-r", "echo posix_getpwuid(posix_geteuid())['name'];").stdout


def ways():
    """The flags of the commands of docs/operate/unit-images.md: as root, without root, with a read-only root, and both."""
    page = (ROOT / "docs/operate/unit-images.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ docker run -d -p 8080:8080 (.*)site$", page, re.M)
    assert len(commands) == 4, commands
    # Podman would mount more that can be written to than Docker does.
    return [[*words.split(), *(["--read-only-tmpfs=false"] if "--read-only" in words else [])] for words in commands]


def read_only_and_without_root(image):
    for flags in ways():
        with Run(image, flags=flags) as run:
            assert run.configured().answering(8080) == "flask", flags


USED = [
    (netbox, "netbox", "Dockerfile", "python3.11"),
    (posthog, "posthog", "Dockerfile", "python3.11"),
    (techempower, "techempower", "php-unit.dockerfile", "php8.2"),
    (techempower_built, "techempower", "php-unit-built.dockerfile", "tutti-test-techempower"),
    (csrgenerator, "csrgenerator", "Dockerfile", "python3.11"),
    (nextcloud, "nextcloud", "Dockerfile", "php8.2"),
    (read_only_and_without_root, "csrgenerator", "Dockerfile", "python3.11"),
]


def main():
    if os.geteuid() != 0:
        not_here("unit users", "containers are root's here")
        return 0
    if sys.argv[1:2] == ["inside"]:
        for case in USED:
            if case[0].__name__ == sys.argv[2]:
                case[0](sys.argv[3])
        return 0
    # Cgroups of one kind, which crun wants.
    inside = f"mount -t tmpfs cgroup /sys/fs/cgroup && mount -t cgroup2 cgroup2 /sys/fs/cgroup && {LOOPBACK}"
    passed, failed = 0, 0
    for case, user, dockerfile, tag in USED:
        if sys.argv[1:] and case.__name__ not in sys.argv[1:]:
            continue
        base = tag if tag.startswith("tutti-test-") else f"tutti:{version()}-{tag}"
        if podman("image", "exists", f"localhost/{base}", check=False).returncode != 0:
            not_here("unit users", f"{user} needs the image {base} (make images)")
            continue
        try:
            image = build(case.__name__, user, dockerfile, base)
            words = [*ALONE, inside, "sh", sys.executable, __file__, "inside", case.__name__, image]
            subprocess.run(words, check=True, timeout=600)
            passed += 1
            print(f"unit users: {case.__name__}")
        except (AssertionError, subprocess.SubprocessError):
            traceback.print_exc()
            failed += 1
            print(f"unit users: {case.__name__} FAILED")
    print(f"unit users: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
