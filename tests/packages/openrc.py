"""The service of Alpine's packages under a real OpenRC, which Debian has a package of: started, upgraded, restarted after a crash, stopped, removed.

The root is Debian's, without systemd as its first process. The programs are those of DIST, at the places of the packages: what runs is packaging/alpine,
with the flags, the folders and the stop that it asks for.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from machine import Unavailable, prepared
from run import free_port, get

ROOT = Path(__file__).resolve().parent.parent.parent
ALPINE = ROOT / "packaging/alpine"
# Slower than a supervisor that waits for nothing.
SCRIPT = "#!/bin/sh\necho 'Content-Type: text/plain'\necho\nmkdir -p /tmp/asked && : >/tmp/asked/here\nuntil [ -e /tmp/go ]; do sleep 0.05; done\necho answered\n"
PLACES = {"bin/tutti": "usr/bin/tutti", "modules/tutti-cgi": "usr/lib/tutti/modules/tutti-cgi", "modules/tutti-external": "usr/lib/tutti/modules/tutti-external"}
BOOT = r"""
set -euo pipefail
work=$1 lower=$2
mount -t tmpfs -o mode=755 tmpfs "$work"
mkdir "$work"/upper "$work"/work "$work"/root
root="$work/root"
mount -t overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
echo ready
# A first process that takes the status of those that have lost their parent.
sleep infinity &
wait
"""


class OpenRc:
    name = "openrc"

    def __init__(self, repository):
        if os.geteuid() != 0:
            raise Unavailable("a root of OpenRC's is root's to make")
        lower = prepared("bookworm")
        self.work = ROOT / ".work/debian" / f"openrc-{os.getpid()}"
        self.work.mkdir(parents=True)
        words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        self.launcher = subprocess.Popen([*words, "bash", "-c", BOOT, "boot", self.work, lower], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.launcher.stdout.readline() != "ready\n":
            raise Unavailable("this machine does not allow the namespaces of a root of its own")
        self.first = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children").read_text().split()[0]
        # As the mounts show it from outside.
        self.root = Path(f"/proc/{self.first}/root{self.work}/root")
        self.run("apt-get update -qq && apt-get install -y -qq --no-install-recommends openrc busybox")
        # It takes services as those of a system that it has started. Debian's own mounts have other names.
        self.run("mkdir -p /run/openrc && echo default >/run/openrc/softlevel && printf '#!/sbin/openrc-run\n' >/etc/init.d/localmount && chmod 755 /etc/init.d/localmount")
        for source, place in PLACES.items():
            (self.root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository.dist / source, self.root / place)
        self.run("ln -s ../bin/tutti /usr/sbin/tuttid && mkdir -p /etc/tutti /srv/cgi-bin && addgroup --system --quiet tutti && adduser --system --quiet --ingroup tutti --no-create-home tutti")
        shutil.copy(ALPINE / "tutti.initd", self.root / "etc/init.d/tutti")
        self.run("chmod 755 /etc/init.d/tutti")

    def run(self, command, check=True):
        passed = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
        environment = passed | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        words = ["nsenter", "-t", self.first, "-m", "-p", "chroot", self.work / "root", "/bin/sh", "-c", command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=580, check=False)
        assert not check or done.returncode == 0, f"`{command}` ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done

    def script(self, name):
        """Runs a script of the package, as apk does."""
        (self.root / "tmp" / name).write_text((ALPINE / name).read_text(encoding="utf-8"))
        return self.run(f"sh /tmp/{name}")

    def status(self):
        return self.run("rc-service tutti status", check=False).stdout.strip()

    def main_process(self):
        return self.run("cat /run/tutti/tutti.pid").stdout.strip()

    def wait(self, what, is_so):
        for _ in range(600):
            if is_so():
                return
            time.sleep(0.1)
        raise AssertionError(f"{what}: {self.status()}\n{self.run('tail -n 20 /var/log/tutti.log; ps -eo pid,args').stdout}")

    def rehearse(self):
        yield self.starts()
        yield self.reloads()
        yield self.is_upgraded()
        yield self.comes_back_after_a_crash()
        yield self.stops_after_the_last_request()
        yield self.is_removed()

    def starts(self):
        self.script("tutti.post-install")
        self.run("""mkdir -p /etc/conf.d /etc/tutti/conf.d && echo 'TUTTI_OPTIONS="--config /etc/tutti/conf.d"' >/etc/conf.d/tutti""")
        self.port = free_port()
        configuration = {"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}}, "routes": [{"match": {"uri": "/wait"}, "action": {"pass": "applications/site"}}, {"action": {"return": 200, "body": "first"}}]}
        configuration["applications"] = {"site": {"type": "cgi", "root": "/srv/cgi-bin", "script": "wait"}}
        (self.root / "srv/cgi-bin/wait").write_text(SCRIPT)
        self.run("chmod -R a+rx /srv")
        self.configure(configuration)
        self.run("rc-update add tutti default && rc-service tutti start")
        # `start_post` has waited for the control socket.
        said = self.run("stat -c '%n %a %U %G' /run/tutti /var/lib/tutti /run/tutti/control.sock /var/log/tutti.log && tutti status >/dev/null").stdout.splitlines()
        assert said == ["/run/tutti 755 root root", "/var/lib/tutti 700 root root", "/run/tutti/control.sock 600 root root", "/var/log/tutti.log 640 root adm"], said
        assert "started" in self.status(), self.status()
        assert "supervise-daemon" in self.run("ps -eo args").stdout
        assert get(self.port) == (200, "first"), get(self.port)
        return "rc-service starts it, with the flags of conf.d; its folders have their modes"

    def configure(self, configuration):
        self.configuration = configuration
        (self.root / "etc/tutti/conf.d/site.json").write_text(json.dumps(configuration))

    def reloads(self):
        self.configuration["routes"][1]["action"]["body"] = "second"
        self.configure(self.configuration)
        self.run("rc-service tutti reload")
        assert get(self.port) == (200, "second"), get(self.port)
        (self.root / "etc/tutti/conf.d/site.json").write_text("{")
        failed = self.run("rc-service tutti reload", check=False)
        assert failed.returncode != 0, failed
        self.configure(self.configuration)
        return "a reload reads the files again, and fails if they are wrong"

    def is_upgraded(self):
        main = self.main_process()
        (self.root / "usr/lib/tutti/after-upgrade").write_text((ROOT / "packaging/debian/reload").read_text(encoding="utf-8"))
        self.run("chmod 755 /usr/lib/tutti/after-upgrade")
        said = self.script("tutti.post-upgrade")
        assert "could not be upgraded" not in said.stdout + said.stderr, said
        assert len(re.findall("upgrade: version .* serves", self.run("cat /var/log/tutti.log").stdout)) == 1
        assert self.main_process() == main and "started" in self.status(), self.status()
        return "an upgrade replaces it below its supervisor"

    def comes_back_after_a_crash(self):
        main = self.main_process()
        self.run(f"kill -KILL {main}")
        self.wait("the supervisor starts it again", lambda: self.main_process() != main and self.run("tutti status", check=False).returncode == 0)
        assert get(self.port) == (200, "second"), get(self.port)
        return "the supervisor starts it again after a crash"

    def stops_after_the_last_request(self):
        asked = subprocess.Popen(["curl", "-sS", f"http://127.0.0.1:{self.port}/wait"], stdout=subprocess.PIPE, text=True)
        self.wait("a request waits", lambda: (self.root / "tmp/asked/here").exists())
        stop = subprocess.Popen(["nsenter", "-t", self.first, "-m", "-p", "chroot", self.work / "root", "rc-service", "tutti", "stop"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.wait("it is stopping", lambda: not is_open(self.port))
        (self.root / "tmp/go").touch()
        assert asked.communicate(timeout=60)[0] == "answered\n", "the request is lost"
        assert stop.wait(timeout=150) == 0
        assert "stopped" in self.status() and "tutti: " not in self.run("ps -eo args").stdout, self.status()
        return "a stop waits for the request under way"

    def is_removed(self):
        self.run("rc-service tutti start")
        assert "tutti" in self.run("rc-update show").stdout
        self.script("tutti.pre-deinstall")
        assert "tutti: " not in self.run("ps -eo args").stdout
        assert "tutti" not in self.run("rc-update show").stdout
        return "the package stops it, and takes it out of the runlevel, before it is removed"

    def close(self):
        self.launcher.kill()
        self.launcher.wait()
        self.work.rmdir()


def is_open(port):
    try:
        get(port)
    except OSError:
        return False
    return True
