#!/usr/bin/env python3
"""The entry point of the images that replace NGINX Unit's, without an image: `entrypoint.py --dist DIST` (root only; seconds).

Each case is a container in small: a root of its own with this machine's programs, a process 1 of its own, and the files of packaging/image
where the image has them. What an image itself adds is tried by unit_users.py.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from chart import skipped, version

ROOT = Path(__file__).resolve().parent.parent.parent
UNITD = ["unitd", "--no-daemon", "--control", "unix:/var/run/control.unit.sock"]
# Makes what the image's `prepare` makes, without what is installed there.
FOLDERS = ["usr/local/bin", "usr/share/tutti/image", "etc", "opt/tutti/bin", "opt/tutti/modules", "proc", "dev", "run", "var/log", "var/lib/unit", "run/tutti", "tmp", "docker-entrypoint.d", "srv"]
INSIDE = """set -eu
root="$1" image="$2" dist="$3" writable="$4" user="$5"; shift 5
for folder in bin sbin lib lib64; do
    [ ! -e "/usr/$folder" ] || { mkdir -p "$root/usr/$folder"; mount --bind "/usr/$folder" "$root/usr/$folder"; }
    ln -sfn "usr/$folder" "$root/$folder"
done
mount --bind "$image" "$root/usr/share/tutti/image"
mount --bind "$dist/bin" "$root/opt/tutti/bin"
mount --bind /etc "$root/etc"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
if [ "$writable" != all ]; then
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    for folder in $writable; do mount -t tmpfs tmpfs "$root$folder"; done
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"; mount --bind /etc "$root/etc"; mount --bind "$dist/bin" "$root/opt/tutti/bin"
    mount --bind "$image" "$root/usr/share/tutti/image"
    for folder in bin sbin lib lib64; do [ ! -e "/usr/$folder" ] || mount --bind "/usr/$folder" "$root/usr/$folder"; done
fi
exec env -i PATH=/usr/local/bin:/opt/tutti/bin:/usr/sbin:/usr/bin:/sbin:/bin \\
    chroot --userspec="$user" --groups="" "$root" /usr/local/bin/docker-entrypoint.sh "$@"
"""
STARTED = []


class Container:
    """A root with the folders of the image, and the process that was started in it last."""

    def __init__(self, folder, dist):
        self.root, self.dist = Path(folder), dist
        for place in FOLDERS:
            (self.root / place).mkdir(parents=True)
        os.symlink("/usr/share/tutti/image/docker-entrypoint.sh", self.root / "usr/local/bin/docker-entrypoint.sh")
        os.symlink("/run", self.root / "var/run")
        os.symlink("/dev/stderr", self.root / "var/log/unit.log")
        for place, mode in [("run", 0o775), ("run/tutti", 0o775), ("var/lib/unit", 0o770), ("docker-entrypoint.d", 0o775)]:
            (self.root / place).chmod(mode)
        (self.root / "tmp").chmod(0o1777)
        self.root.chmod(0o755)
        self.output = self.root.parent / f"{self.root.name}.log"

    def put(self, name, content, mode=0o644):
        path = os.path.join(os.fsencode(self.root / "docker-entrypoint.d"), os.fsencode(name))
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode())
        os.chmod(path, mode)

    def start(self, *command, user="0:0", writable="all"):
        words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh"]
        words += [str(self.root), str(ROOT / "packaging/image"), str(self.dist), writable, user, *(command or UNITD)]
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        STARTED.append(self)
        return self

    def first(self):
        """The number of its process 1 here."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def send(self, number):
        os.kill(self.first(), number)

    def said(self):
        return self.output.read_text(errors="replace")

    def end(self, seconds=60):
        return self.process.wait(timeout=seconds)

    def wait_for(self, text):
        wait(lambda: text in self.said() or self.process.poll() is not None, f"{text!r}: {self.said()}")
        assert text in self.said(), f"ended with {self.process.returncode}, without {text!r}:\n{self.said()}"
        return self

    def configured(self):
        """Waits until the server itself is process 1, and answers."""
        wait(lambda: self.process.poll() is not None or self.is_serving(), "the server: " + self.said())
        assert self.process.poll() is None, self.said()
        return self

    def is_serving(self):
        try:
            name = Path(f"/proc/{self.first()}/comm").read_text()
        except (OSError, IndexError):
            return False
        return name.strip() in ("unitd", "tutti") and self.control("/status", check=False).returncode == 0

    def inside(self, *words, check=True):
        return subprocess.run(["nsenter", "-t", str(self.first()), "-m", "-p", "-r", *words], capture_output=True, text=True, check=check, timeout=60)

    def control(self, path, *words, check=True):
        return self.inside("/usr/bin/curl", "-s", "-f", "--unix-socket", "/var/run/control.unit.sock", f"http://localhost{path}", *words, check=check)

    def stop(self):
        if self.process.poll() is None:
            try:
                self.send(signal.SIGKILL)
            except (OSError, IndexError):
                pass
            self.process.wait(timeout=60)


def wait(condition, what):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, f"no {what}"
        time.sleep(0.02)


def get(port, path="/", method="GET"):
    done = subprocess.run(["curl", "-s", "-X", method, "-w", "\n%{http_code}", f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=False, timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def answering(port, status=200):
    return {"listeners": {f"127.0.0.1:{port}": {"pass": "routes"}}, "routes": [{"action": {"return": status}}]}


def bundle():
    with tempfile.TemporaryDirectory() as folder:
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=test", "-keyout", "key", "-out", "cert"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        return b"".join((Path(folder) / name).read_bytes() for name in ("cert", "key"))


def each_kind_of_file_is_used_once(new):
    one = new()
    one.put("site.pem", bundle())
    one.put("http.js", "export default { greeting: () => 'hello' }")
    one.put("config.json", answering(8001, 201))
    one.put("look.sh", "#!/bin/sh\ncurl -s --unix-socket /var/run/control.unit.sock http://localhost/ >/srv/seen\n", 0o755)
    one.put("README.txt", "not for the server")
    one.start().configured()
    seen = json.loads((one.root / "srv/seen").read_text())
    assert list(seen["certificates"]) == ["site"] and list(seen["js_modules"]) == ["http"], seen
    assert "127.0.0.1:8001" in seen["config"]["listeners"], "scripts run after the configuration"
    assert get(8001)[0] == 201
    assert "ignoring '/docker-entrypoint.d/README.txt'" in one.said(), one.said()
    one.send(signal.SIGTERM)
    assert one.end() == 0, one.said()
    one.put("config.json", answering(8001, 202))
    one.start().configured()
    assert "is not empty: /docker-entrypoint.d is not read" in one.said()
    assert get(8001)[0] == 201


def another_command_is_executed_as_it_is(new):
    one = new()
    one.put("config.json", "broken")
    assert one.start("echo", "as", "it is").end() == 0 and one.said() == "as it is\n", one.said()
    assert one.start("unitd", "--version").end() == 0 and not list((one.root / "var/lib/unit").iterdir())
    assert one.start("no-such-program").end() == 127


def a_broken_configuration_is_named_and_can_be_repaired(new):
    one = new()
    one.put("a.pem", bundle())
    one.put("config.json", '{"listeners": {\n  "*:80" }}')
    assert one.start().end() == 1
    assert "/docker-entrypoint.d/config.json:2:" in one.said() and "configuration '/docker-entrypoint.d/config.json' was refused" in one.said(), one.said()
    assert one.start().end() == 1, "a restarted container must not serve half of its configuration"
    one.put("config.json", answering(8001))
    one.start().configured()
    assert get(8001)[0] == 200 and list((one.root / "var/lib/unit").glob(".docker*")) == []


def names_are_never_commands(new):
    one = new()
    names = ["-rf *", "a b\nc", "$(touch srv)`touch srv`", "..%2f..%2f", "\udcff\udcfe", "ü 'x\""]
    for name in names[:3] + names[5:]:
        one.put(f"{name}.pem", bundle())
    one.put("-o x;touch ${HOME}.json", answering(8001, 203))
    one.put(" $(id).sh", "#!/bin/sh\ntouch '/srv/with a name'\n", 0o755)
    one.put("other\n\x1b[2J.txt", "")
    # As Kubernetes mounts a ConfigMap.
    data = one.root / "docker-entrypoint.d/..2026_11_29"
    data.mkdir()
    (data / "map.js").write_text("export default { x: 1 }")
    os.symlink("..2026_11_29", data.parent / "..data")
    os.symlink("..data/map.js", data.parent / "map.js")
    os.symlink("/nowhere", data.parent / "dangling.json")
    (data.parent / "folder.json").mkdir()
    one.start().configured()
    root = json.loads(one.control("/").stdout)
    assert set(root["certificates"]) == {*names[:3], names[5]}, root["certificates"]
    assert list(root["js_modules"]) == ["map"] and get(8001)[0] == 203
    assert [file.name for file in (one.root / "srv").iterdir()] == ["with a name"]
    assert "\x1b" not in one.said() and one.said().count(": not a file") == 2, one.said()


def hidden_files_count(new):
    one = new()
    one.put(".unit.conf.json", answering(8001, 204))
    one.start().configured()
    assert get(8001)[0] == 204


def files_that_cannot_be_used_end_the_start(new):
    one = new()
    one.put("key.pem", bundle(), 0o600)
    assert one.start(user="12345:0").end() == 1
    assert "user 12345 cannot read '/docker-entrypoint.d/key.pem'" in one.said(), one.said()
    two = new()
    two.put("bad.pem", "no certificate")
    assert two.start().end() == 1 and "certificate bundle '/docker-entrypoint.d/bad.pem' was refused: {" in two.said(), two.said()
    three = new()
    three.put("run.sh", "#!/bin/sh\nexit 0\n")
    assert three.start().end() == 1 and "'/docker-entrypoint.d/run.sh' is not executable" in three.said(), three.said()
    four = new()
    four.put("run.sh", "#!/bin/sh\nexit 9\n", 0o755)
    assert four.start().end() == 1 and "ended with status 9" in four.said(), four.said()


def blocked(one):
    """A first start that waits in a script until the file /srv/go is there."""
    one.put("config.json", answering(8001))
    one.put("wait.sh", "#!/bin/sh\ntouch /srv/waits\nuntil [ -e /srv/go ]; do sleep 0.05; done\n", 0o755)
    return one


def one_state_has_one_container(new):
    one = blocked(new()).start()
    wait(lambda: (one.root / "srv/waits").exists(), "script")
    two = new(one)
    two.put("config.json", answering(8002))
    assert two.start().end() == 1 and "another container configures a server in '/var/lib/unit' now" in two.said(), two.said()
    (one.root / "srv/go").touch()
    one.configured()
    assert get(8001)[0] == 200
    assert two.start().end() == 1 and "another instance is running with the state folder" in two.said(), two.said()


def a_stop_of_the_first_start_is_obeyed(new):
    one = blocked(new()).start()
    wait(lambda: (one.root / "srv/waits").exists(), "script")
    one.send(signal.SIGTERM)
    assert one.end() == 143, one.said()
    (one.root / "srv/go").touch()
    one.start().configured()
    assert "the first start did not finish: it begins again" in one.said() and get(8001)[0] == 200


def a_kill_of_the_first_start_is_survived(new):
    one = blocked(new()).start()
    wait(lambda: (one.root / "srv/waits").exists(), "script")
    one.stop()
    (one.root / "srv/go").touch()
    one.start().configured()
    assert get(8001)[0] == 200


def orphans_are_reaped(new):
    one = new()
    one.put("config.json", answering(8001))
    one.put("orphan.sh", "#!/bin/sh\nsh -c '(until [ -e /srv/go ]; do sleep 0.05; done) & echo $! >/srv/orphan'\n", 0o755)
    one.start().configured()
    first = one.first()
    children = lambda: Path(f"/proc/{first}/task/{first}/children").read_text().split()
    states = lambda: [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] for child in children()]
    before = len(children())
    (one.root / "srv/go").touch()
    wait(lambda: len(children()) < before, "end of the orphan")
    assert "Z" not in states(), states()


def what_must_be_writable_is_named(new):
    one = new()
    one.put("config.json", answering(8001))
    assert one.start(writable="/run").end() == 1
    assert "user 0, group 0 cannot write to '/var/lib/unit', which holds the state" in one.said() and "--tmpfs /var/lib/unit" in one.said(), one.said()
    assert one.start(writable="/var/lib/unit /tmp").end() == 1 and "cannot write to '/var/run', which holds the control socket" in one.said(), one.said()
    one.start(writable="/run /var/lib/unit /tmp").configured()
    assert get(8001)[0] == 200


def users_without_a_name(new):
    one = new()
    one.put("config.json", answering(8001))
    one.start(user="12345:0").configured()
    assert get(8001)[0] == 200
    # Not through what belongs to root.
    two = new()
    two.put("config.json", answering(8002))
    assert two.start(user="1000:1000").end() == 1 and "user 1000, group 1000 cannot write to '/var/lib/unit'" in two.said(), two.said()


def group_0_may_not_write_beside_root(new):
    """An application with that group could give the next start another configuration, or take the control socket's place."""
    one = new()
    one.put("config.json", answering(8001))
    one.start().configured()
    for place in ["run", "run/tutti", "var/lib/unit", "docker-entrypoint.d"]:
        assert (one.root / place).stat().st_mode & 0o022 == 0, place
    two = new()
    two.start(user="12345:0").configured()
    assert (two.root / "run").stat().st_mode & 0o020, "nothing is changed without root"


def an_image_without_configuration_shows_that_it_runs(new):
    one = new()
    (one.root / "var/lib/unit/lost+found").mkdir()
    one.start().configured()
    status, page = get(80)
    assert status == 200 and "Welcome" in page, (status, page)


def both_sockets_lead_to_the_server(new):
    one = new()
    configuration = answering(8001)
    sockets = ["/srv/control.sock", "/var/run/control.unit.sock", "/var/run/tutti/control.sock"]
    for port, path in enumerate(sockets, 8002):
        configuration["listeners"][f"127.0.0.1:{port}"] = {"pass": f"routes/r{port}"}
    configuration["listeners"]["127.0.0.1:8001"] = {"pass": "routes/main"}
    configuration["routes"] = {"main": [{"action": {"return": 200}}]}
    for port, path in enumerate(sockets, 8002):
        configuration["routes"][f"r{port}"] = [{"action": {"proxy": f"http://unix:{path}"}}]
    one.put("config.json", configuration)
    one.start("unitd", "--no-daemon", "--control", "unix:/srv/control.sock").configured()
    for socket in sockets:
        done = one.inside("/opt/tutti/bin/tutti", "status", "--control", f"unix:{socket}")
        assert done.returncode == 0, done
    for port, path in enumerate(sockets, 8002):
        status, body = get(port, "/status")
        assert status == 200 and "connections" in body, (path, status, body)
        for forbidden in [("/config", "GET"), ("/config", "DELETE"), ("/control/applications/x/restart", "GET"), ("/status", "PUT")]:
            status, body = get(port, *forbidden)
            assert status >= 400 and "listeners" not in body, (path, forbidden, status, body)
    assert get(8001)[0] == 200, "the configuration is still there"


def the_log_of_unit_is_the_terminal(new):
    one = new()
    one.put("config.json", {**answering(8001, 207), "access_log": "/var/log/unit.log"})
    one.start().configured()
    assert get(8001)[0] == 207
    one.wait_for('"GET / HTTP/1.1" 207')


def page_has_the_table_of_tags():
    """docs/operate/unit-images.md lists what packaging/image/tags.toml says."""
    page = (ROOT / "docs/operate/unit-images.md").read_text(encoding="utf-8")
    found = page.partition("<!-- tags: packaging/build-images --table -->\n")[2].partition("<!-- end of tags -->")[0]
    table = subprocess.run([ROOT / "packaging/build-images", "--table"], capture_output=True, text=True, check=True).stdout
    assert found == table, f"docs/operate/unit-images.md: the table of tags is not that of `packaging/build-images --table`:\n{table}"
    described = tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))
    larger = [tag["name"] for tag in described["tag"] if tag["most"] >= tag["unit_size"]]
    assert larger == ["minimal", "wasm"], f"these may be as large as Unit's: {larger}"


def places_of_publication_are_one():
    """The registry of packaging/image/tags.toml and the address of packaging/install.sh are those of each file that leads users there, with this version."""
    registry = tomllib.loads((ROOT / "packaging/image/tags.toml").read_text(encoding="utf-8"))["registry"]
    address = re.search(r"^address=(.*)$", (ROOT / "packaging/install.sh").read_text(encoding="utf-8"), re.M)[1]
    # References of an image, and addresses of the server of releases, whichever they name.
    images = r"(?:\bFROM |^ +(?:image|repository): |(?<![\w./-])(?=[\w-]+\.[\w.-]+/tutti[:`\s]))([^\s`:,]+)(?::([^\s`,]+))?"
    releases = r"(https?://[^\s`'|\"]+?)/(?:install\.sh|releases/([^/\s]+)|repository\b|security/)"
    for own, pattern, pages in ((registry, images, IMAGES_IN), (address, releases, RELEASES_IN)):
        for page in pages:
            found = re.findall(pattern, (ROOT / page).read_text(encoding="utf-8"), re.M)
            assert found, f"{page}: it does not name `{own}`"
            for place, of_version in found:
                assert place == own, f"{page}: it names `{place}`, and not `{own}`"
                assert not of_version or any(of_version == one or of_version.startswith(f"{one}-") for one in ("VERSION", version())), f"{page}: it names version {of_version} at `{own}`, and not {version()}"


# Where users read what images there are, and where releases are.
IMAGES_IN = ["docs/operate/unit-images.md", "docs/start/install.md", "docs/operate/kubernetes.md", "packaging/image/compose.yaml", "packaging/helm/tutti/values.yaml"]
RELEASES_IN = ["README.md", "VERIFY.md", "docs/start/install.md", "docs/operate/kubernetes.md", "docs/security/README.md"]

# Every function above that is given `new`, which makes a container.
CASES = {name: case for name, case in list(globals().items()) if getattr(case, "__code__", None) and case.__code__.co_varnames[:1] == ("new",)}


def tried(case, dist):
    """Runs one case; its containers are gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        volumes = []

        def new(shares=None):
            made = Container(Path(folder) / f"root{len(os.listdir(folder))}", dist)
            if shares:
                place = made.root / "var/lib/unit"
                subprocess.run(["mount", "--bind", shares.root / "var/lib/unit", place], check=True)
                volumes.append(place)
            return made

        try:
            case(new)
            return 0
        except Exception:
            traceback.print_exc()
            for container in dict.fromkeys(STARTED):
                print(f"--- {container.root.name}\n{container.said()[-2500:]}")
            return 1
        finally:
            for container in STARTED:
                container.stop()
            for place in volumes:
                subprocess.run(["umount", place], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    if options.inside:
        return tried(CASES[options.inside], options.dist.resolve())
    page_has_the_table_of_tags()
    places_of_publication_are_one()
    if os.geteuid() != 0:
        skipped("entrypoint", "containers are root's here")
        return 0

    def outside(name):
        # A network of its own, so that each case can have every port.
        inside = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, __file__]
        begun = time.monotonic()
        done = subprocess.run([*inside, "--dist", options.dist, "--inside", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(f"{done.stdout}entrypoint: {name} {'passed' if done.returncode == 0 else 'FAILED'} ({time.monotonic() - begun:.1f} s)", flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(4) as pool:
        passed = list(pool.map(outside, [name for name in CASES if not options.only or name in options.only]))
    print(f"entrypoint: {passed.count(True)} passed, {passed.count(False)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
