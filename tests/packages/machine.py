"""A fresh Debian with systemd as its first process, in namespaces of its own: what is installed there is gone with it.

The root is made once by `packaging/debian-root`, and each machine works on an overlay in memory. The network is this machine's.
"""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Packages that a Debian that boots has, and a minimal root has not.
BOOTS = "systemd systemd-sysv dbus ca-certificates procps logrotate"

# In the new namespaces, until systemd takes over. Devices are the few that a container has.
BOOT = r"""
set -euo pipefail
lower=$1 work=$2 packages=$3
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work"/upper "$work"/work "$work"/root
root="$work/root"
mount -t overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/work" overlay "$root"
mkdir -p "$root/packages"
mount --bind "$packages" "$root/packages"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 /lib/systemd/systemd --log-target=null
"""


class Unavailable(Exception):
    """This machine cannot run such a machine; the reason."""


class Machine:
    """Boots at once; `close` ends every process of it."""

    def __init__(self, suite, packages):
        if os.geteuid() != 0:
            raise Unavailable("booting a Debian in namespaces is root's")
        self.lower = prepared(suite)
        self.work = ROOT / ".work/debian" / f"machine-{os.getpid()}"
        self.work.mkdir(parents=True, exist_ok=True)
        words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--cgroup"]
        self.launcher = subprocess.Popen(
            [*words, "bash", "-c", BOOT, "boot", str(self.lower), str(self.work), str(packages)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.first = self._first_process()
        self._wait_until_up()

    def _first_process(self):
        children = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children")
        for _ in range(300):
            if self.launcher.poll() is not None:
                raise Unavailable("it does not boot: " + self.launcher.stdout.read().decode()[-400:])
            for child in children.read_text().split():
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return child
            time.sleep(0.1)
        raise Unavailable("systemd did not start within 30 seconds")

    def _wait_until_up(self):
        for _ in range(600):
            # `degraded`: a service that wants a machine of its own, and not ours.
            if self.run("systemctl is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                return
            time.sleep(0.1)
        raise Unavailable("systemd is not up after 60 seconds")

    def run(self, command, check=True, stdin=None):
        """Runs a line of shell in there as root. A failure is an error with what it said."""
        passed = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
        words = ["nsenter", "-t", self.first, "-m", "-p", "-u", "-i", "-C", "-r", "-w", "env", "-i", *passed]
        words += ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        done = subprocess.run([*words, "bash", "-c", command], input=stdin, capture_output=True, text=True, timeout=580, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"`{command}` ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def write(self, path, text):
        """Writes a file in there that everybody may read."""
        folder = shlex.quote(str(Path(path).parent))
        self.run(f"mkdir -p {folder} && cat >{shlex.quote(path)}", stdin=text)

    def close(self):
        if self.launcher.poll() is None:
            # The first process of the namespace takes all others along.
            os.kill(int(self.first), signal.SIGKILL)
            self.launcher.wait()
        self.work.rmdir()


def prepared(suite):
    """The root of a Debian that boots, made once."""
    root = ROOT / ".work/debian" / f"booting-{suite}"
    made = subprocess.run([ROOT / "packaging/debian-root", suite, root], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise Unavailable(made.stderr.strip()[-400:])
    done = root / ".boots"
    if not done.exists() or done.read_text() != BOOTS:
        install = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {BOOTS} && apt-get clean"
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        made = subprocess.run(["chroot", root, "sh", "-c", install], capture_output=True, text=True, env=environment, check=False)
        if made.returncode != 0:
            raise Unavailable(made.stderr.strip()[-400:])
        done.write_text(BOOTS)
    return root
