#!/usr/bin/env python3
"""The Debian packages as people use them: `tests/packages/run.py --packages FOLDER --newer FOLDER [--all]`.

On a fresh Debian with systemd: install and serve a site, read the manual, complete commands, upgrade to FOLDER's newer packages under load
without a lost request, remove, install again, purge; nothing is left. `--all` also serves an application of each language host, and uses the
packages that few install: `tutti-unitd`, `tutti-dev`, `tutti-wasm` and debug information. The packages are of this machine's Debian release,
unless `--suite` says another. What cannot run here is reported as skipped.
"""

import argparse
import base64
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(ROOT / "bench"))

import guides  # noqa: E402
from harness.servers import free_port  # noqa: E402
from languages import LANGUAGES  # noqa: E402
from machine import Machine, Unavailable  # noqa: E402

# Packages that are always installed; the languages' own are added.
SERVER = "tutti"
# The longest time to wait for something that must happen, on a machine that does other work too.
PATIENCE = 60
# The component that tests build, and for what.
COMPONENT, TARGET = ROOT / "tests/conformance/wasm/rust", "wasm32-wasip2"
# Where something may stay after a purge: what dpkg, apt, systemd and the accounts write themselves.
OTHERS = ("./var/lib/dpkg", "./var/lib/apt", "./var/cache", "./var/log", "./var/lib/systemd", "./etc/passwd", "./etc/group", "./etc/shadow", "./etc/gshadow", "./etc/subuid", "./etc/subgid", "./etc/.pwd.lock", "./etc/ld.so.cache")


def wait_until(condition, otherwise):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.1)


def get(port, path="/", host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def guide():
    """The commands of the guide's first part, each with what it says."""
    part = (ROOT / "docs/start/install.md").read_text(encoding="utf-8").partition("### Upgrade")[0]
    found = []
    for block in part.split("```console\n")[1:]:
        for line in block.partition("```")[0].splitlines():
            if line.startswith("# "):
                found.append([line[2:], ""])
            else:
                found[-1][1] = f"{found[-1][1]}\n{line}".strip()
    assert len(found) > 5, found
    return found


def component():
    """The component in Rust of the conformance tests, or why there is none."""
    built = ROOT / ".work/components"
    words = ["cargo", "build", "--quiet", "--locked", "--release", "--target", TARGET]
    try:
        made = subprocess.run(words, cwd=COMPONENT, env={**os.environ, "CARGO_TARGET_DIR": str(built)}, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable("cargo is not there: no component to serve") from None
    if made.returncode:
        raise Unavailable(f"the component is not built (`rustup target add {TARGET}`?): {made.stderr.strip()[-300:]}")
    return (built / TARGET / "release/conformance.wasm").read_bytes()


class Load:
    """Clients that ask all the time, some on a new connection each time, some on one that is kept; counts what is lost."""

    def __init__(self, port, says="PHP says", paths=("/",)):
        self.port, self.says, self.asked, self.lost, self.end = port, says, 0, [], threading.Event()
        self.lock = threading.Lock()
        clients = [(keep, path) for path in paths for keep in (True, False)]
        self.clients = [threading.Thread(target=self._client, args=client) for client in clients * max(1, 6 // len(clients))]
        for client in self.clients:
            client.start()

    def _client(self, keep, path):
        connection = None
        while not self.end.is_set():
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                connection.request("GET", f"{path}?load")
                answer = connection.getresponse()
                body = answer.read().decode()
                lost = None if answer.status == 200 and self.says in body else f"{answer.status} {body[:80]}"
                if not keep or answer.getheader("Connection", "").lower() == "close":
                    connection.close()
                    connection = None
            except OSError as error:
                lost, connection = repr(error), None
            except http.client.HTTPException as error:
                lost, connection = repr(error), None
            with self.lock:
                self.asked += 1
                if lost:
                    self.lost.append(lost)

    def wait(self, more):
        """Waits for answers, of which none is lost."""
        wanted = self.asked + more
        while self.asked < wanted and not self.lost:
            time.sleep(0.05)

    def stop(self):
        self.end.set()
        for client in self.clients:
            client.join()


def logs_rotate(run, port):
    """Turns the access log on and rotates it with the daemon's, by logrotate; `run` is a command in there, where `site` is served on the port."""
    folder = run("stat -c '%a %U %G' /var/log/tutti").stdout.strip()
    assert folder == "750 root adm", f"/var/log/tutti is {folder}"
    run("echo '\"/var/log/tutti/access.log\"' >/srv/log.json && tutti config put /access_log --file /srv/log.json")
    assert get(port)[0] == 200
    run("until test -s /var/log/tutti/access.log; do sleep 0.05; done")
    run("logrotate --force /etc/logrotate.d/tutti && test -s /var/log/tutti.log.1 && test -s /var/log/tutti/access.log.1")
    # Lines written from now on are in the new file.
    run("tutti restart site")
    wait_until(lambda: run("test -s /var/log/tutti.log", check=False).returncode == 0, "the log was not opened again")
    return "logrotate rotates the logs, and what is written then is in the new one"


class Walk:
    """The steps of one run on one machine."""

    def __init__(self, machine, packages, newer, languages):
        self.machine, self.packages, self.newer, self.languages = machine, packages, newer, languages
        self.port = free_port()

    def files(self, folder, names):
        found = []
        for name in names:
            matches = sorted(folder.glob(f"{name}_*.deb")) or sorted(folder.glob(f"{name}[0-9]*_*.deb"))
            assert matches, f"no package `{name}` in {folder}"
            found.append(f"/packages/{folder.name}/{matches[-1].name}")
        return " ".join(found)

    def installs_and_serves(self):
        """The commands of docs/start/install.md, with what each says; the port is a free one."""
        # A release has packages for other systems beside these, which apt would refuse.
        release, architecture = self.machine.run(". /etc/os-release && echo $VERSION_ID && dpkg --print-architecture").stdout.split()
        php = re.search(r"tutti-php[\d.]+", self.files(self.packages, ["tutti-php"]))[0]
        of_others = " ".join(f"{name}_0-1.deb{system}.deb" for name in ("tutti", php) for system in (f"{release}_other", f"0_{architecture}"))
        self.machine.run(f"mkdir /srv/release && cd /srv/release && ln -s /packages/{self.packages.name}/*.deb . && touch {of_others}")
        names = {"*:8080": f"127.0.0.1:{self.port}", "localhost:8080": f"127.0.0.1:{self.port}", "deb12_amd64": f"deb{release}_{architecture}", "tutti-php8.2": php}
        began = time.monotonic()
        for command, says in guide():
            for name, own in names.items():
                command = command.replace(name, own)
            said = self.machine.run(f"cd /srv/release && {command.replace('apt install', 'apt-get install -y -qq')}").stdout
            assert said.strip() == says or not says, f"`{command}` says {said}, not {says}"
        assert get(self.port) == (200, "PHP says 42"), get(self.port)
        took = time.monotonic() - began
        installed = self.machine.run("dpkg-query -W -f '${Package}\n'").stdout.split()
        assert not [name for name in installed if name.endswith("-dbgsym")], "what the guide installs is no debug information"
        assert self.machine.run("systemctl is-enabled tutti").stdout.strip() == "enabled"
        return f"a fresh system serves a PHP site {took:.0f} seconds after `apt update`, of which most is apt's"

    def has_manual_and_completions(self):
        """Manual pages are opened by `man`, and shells find the completions where packages put them."""
        others = " zsh fish" if self.languages else ""
        self.machine.run(f"apt-get install -y -qq --no-install-recommends man-db bash-completion{others}")
        pages = self.machine.run("dpkg -L tutti | grep -c '/man/man[18]/.*[.]gz$'").stdout
        assert int(pages) > 20, pages
        for page, says in (("tuttid", "--modulesdir"), ("tutti", "tutti-config(1)"), ("tutti-config-edit", "editor"), ("tutti-status", "--watch")):
            said = self.machine.run(f"MANPAGER=cat MANWIDTH=100 man {page}").stdout
            assert says in said, f"`man {page}` does not say `{says}`:\n{said[:2000]}"
        load = "_completion_loader tutti 2>/dev/null || :; complete -p tutti >/dev/null 2>&1 || _comp_load tutti || :"
        function = "$(complete -p tutti | sed -E 's/.* -F ([^ ]+) .*/\\1/')"
        ask = f'. /usr/share/bash-completion/bash_completion; {load}; COMP_WORDS=(tutti config ed) COMP_CWORD=2; {function} tutti ed config; echo "${{COMPREPLY[*]}}"'
        asked = {"bash": self.machine.run(ask).stdout.strip()}
        if others:
            asked["zsh"] = self.machine.run("zsh -fc 'autoload -U compinit; compinit -u -D; print $_comps[tutti]'").stdout.strip().replace("_tutti", "edit")
            asked["fish"] = self.machine.run("fish -c 'complete -C \"tutti config ed\"'").stdout.split()[0]
        assert set(asked.values()) == {"edit"}, asked
        return f"{pages.strip()} manual pages are there, and {', '.join(asked)} complete commands"

    def has_debug_information(self):
        """The program has no symbols; with its package of debug information an address in it has a file and a line, and so has a stack trace."""
        self.machine.run(f"apt-get install -y -qq --no-install-recommends binutils && apt-get install -y -qq {self.files(self.packages, ['tutti-dbgsym'])}")
        assert "no symbols" in self.machine.run("nm /usr/bin/tutti 2>&1", check=False).stdout
        debug = self.machine.run("dpkg -L tutti-dbgsym | grep '[.]debug$' | while read -r file; do nm $file | grep -q tutti_router && echo $file; done || :").stdout.split()
        assert debug, "no file of debug information has functions of the router"
        addresses = f"nm {debug[0]} | grep -i ' t ' | grep tutti_router | cut -d' ' -f1 | head -n 200"
        lines = self.machine.run(f"{addresses} | addr2line -e /usr/bin/tutti").stdout.splitlines()
        known = [line for line in lines if "crates/router/src/" in line]
        assert known, f"no function of the router has a line: {lines[:5]}"
        # The program that runs: where each of its threads is.
        self.machine.run("apt-get install -y -qq --no-install-recommends elfutils")
        stack = self.machine.run("eu-stack --source --pid $(pgrep -of '^tutti: router')").stdout
        frames = re.findall(r"^ +(crates/\S+[.]rs):\d+", stack, re.M)
        assert frames, f"no frame of the running router has a line:\n{stack[-3000:]}"
        self.machine.run("apt-get remove -y -qq tutti-dbgsym")
        return f"debug information tells lines of the stripped program: {len(known)} of {len(lines)} functions, {len(frames)} frames of the running router"

    def is_kept_safe(self):
        users = self.machine.run("ps -eo user:20,args | grep '[t]utti: '").stdout
        assert "tutti: router" in users and "tutti: controller" in users, users
        for line in users.splitlines():
            if "router" in line or "controller" in line:
                assert line.startswith("tutti "), line
        for path, mode in (("/var/lib/tutti", "700 root"), ("/run/tutti/control.sock", "600 root"), ("/usr/lib/tutti/modules/tutti-external", "711 root"), ("/usr/lib/tutti/modules/tutti-cgi", "711 root")):
            assert self.machine.run(f"stat -c '%a %U' {path}").stdout.strip() == mode, path
        said = self.machine.run("tutti status").stdout
        assert "site" in said and "php" in said, said
        self.machine.run("systemd-analyze verify /lib/systemd/system/tutti.service")
        return "router and controller are the user tutti, what is stored is root's"

    def is_upgraded_under_load(self):
        main = self.machine.run("cat /run/tutti/tutti.pid").stdout.strip()
        router = self.machine.run("pgrep -f '^tutti: router'").stdout.split()
        load = Load(self.port)
        try:
            load.wait(200)
            said = self.machine.run(f"apt-get install -y -qq {self.files(self.newer, [SERVER, 'tutti-php'])}")
            # The new version has answered for a while.
            load.wait(500)
        finally:
            load.stop()
        assert not load.lost, f"{len(load.lost)} of {load.asked} requests lost, the first: {load.lost[0]}"
        assert "could not be upgraded" not in said.stdout + said.stderr, said
        assert self.machine.run("cat /run/tutti/tutti.pid").stdout.strip() == main, "the main process stays"
        after = self.machine.run("pgrep -f '^tutti: router'").stdout.split()
        assert set(after) - set(router), f"the router is a new one: {router}, {after}"
        started = self.machine.run("systemctl show -p NRestarts --value tutti").stdout.strip()
        assert started == "0", started
        return f"upgraded under load: {load.asked} requests, 0 lost"

    def a_failed_upgrade_costs_nothing(self):
        """A host is taken away that the configuration needs: the server goes on, and apt's run succeeds."""
        package = self.files(self.newer, ["tutti-php"]).rpartition("/")[2].partition("_")[0]
        said = self.machine.run(f"apt-get remove -y -qq {package}")
        assert "could not be upgraded and continues with the old version" in said.stdout + said.stderr, said
        assert get(self.port)[0] == 200
        self.machine.run(f"apt-get install -y -qq {self.files(self.newer, ['tutti-php'])}")
        assert get(self.port)[0] == 200
        return "taking a language host away leaves the running server as it is, and says so"

    def serves_every_language(self):
        served = []
        for language in self.languages:
            self.machine.run(f"apt-get install -y -qq {self.files(self.newer, [language.package])} {language.needs}")
            for path, text in language.files.items():
                self.machine.write(path, text)
            for command in language.commands:
                self.machine.run(command)
            status, body = self.serve(language.package, language.application, language.path)
            assert status == 200 and language.says in body, f"{language.package}: {status} {body[:300]}"
            served.append(language.package)
        return f"serve: {', '.join(served)}"

    def is_unitd_too(self):
        """`tutti-unitd`: a server under Unit's name and flags, beside the one that runs."""
        self.machine.run(f"apt-get install -y -qq {self.files(self.newer, ['tutti-unitd'])}")
        flags = "--statedir /srv/unit --control unix:/srv/unit.sock --pid /srv/unit.pid --log /srv/unit.log"
        said = self.machine.run(f"mkdir /srv/unit && unitd {flags} && curl -sS --unix-socket /srv/unit.sock http://localhost/config").stdout
        assert json.loads(said) == {}, said
        self.machine.run("pid=$(cat /srv/unit.pid) && kill -QUIT $pid && while kill -0 $pid 2>/dev/null; do sleep 0.05; done")
        assert "tutti" in self.machine.run("unitd --version 2>&1; MANPAGER=cat man unitd").stdout
        return "tutti-unitd starts it under Unit's name and flags"

    def builds_programs(self):
        """`tutti-dev`: a program in C, as the guide's sample says."""
        self.machine.run(f"apt-get install -y -qq --no-install-recommends gcc libc6-dev && apt-get install -y -qq {self.files(self.newer, ['tutti-dev'])}")
        self.machine.write("/srv/c/hello.c", (ROOT / "sdk/c/samples/hello.c").read_text(encoding="utf-8"))
        self.machine.run("cc -O2 -o /srv/c/hello /srv/c/hello.c -ltutti_worker -lpthread -ldl -lm && test -s /usr/share/tutti/go/go.mod")
        said = self.serve("program", {"type": "external", "executable": "/srv/c/hello"}, "/here")
        assert said == (200, "Hello from C: /here\n"), said
        return "a program in C is built with tutti-dev and served"

    def serves_components(self):
        if not list(self.newer.glob("tutti-wasm_*.deb")):
            raise Unavailable("there is no package `tutti-wasm` (built with `make build WASM=`)")
        bytes_of_it = base64.b64encode(component()).decode()
        self.machine.run(f"apt-get install -y -qq {self.files(self.newer, ['tutti-wasm'])}")
        self.machine.run("mkdir -p /srv/wasm && base64 -d >/srv/wasm/hello.wasm", stdin=bytes_of_it)
        said = self.serve("component", {"type": "wasm-wasi-component", "component": "/srv/wasm/hello.wasm"}, "/")
        assert said == (200, "Hello from a component\n"), said
        return "a component is served with tutti-wasm"

    def serve(self, name, application, path):
        """Adds an application at a port of its own; what is answered there."""
        port = free_port()
        self.machine.write("/srv/application.json", json.dumps(application))
        self.machine.run(f"tutti config put /applications/{name} --file /srv/application.json")
        self.machine.write("/srv/listener.json", json.dumps({"pass": f"applications/{name}"}))
        self.machine.run(f"tutti config put '/listeners/127.0.0.1:{port}' --file /srv/listener.json")
        return get(port, path)

    def logs_rotate(self):
        return logs_rotate(self.machine.run, self.port)

    def is_removed_and_comes_back(self):
        self.machine.run("apt-get remove -y -qq 'tutti*'")
        assert not self.machine.run("pgrep -f '^tutti: '", check=False).stdout, "nothing runs any more"
        left = self.machine.run("ls -d /usr/bin/tutti /usr/sbin/tuttid /usr/lib/tutti 2>/dev/null", check=False).stdout
        assert not left, left
        self.machine.run("test -e /etc/default/tutti && ls /var/lib/tutti | grep -q .")
        self.machine.run(f"apt-get install -y -qq {self.files(self.newer, [SERVER, 'tutti-php'])}")
        # The languages' own are not there again: the rest is served.
        wait_until(self.is_served, "the configuration is not there again")
        return "after a removal the configuration is there again"

    def is_served(self):
        try:
            return get(self.port)[0] == 200
        except OSError:
            return False

    def is_purged(self, before):
        self.machine.run("apt-get purge -y -qq 'tutti*' && rm -rf /srv/*")
        left = self.machine.run("find / -xdev -iname '*tutti*' -not -path '/proc/*' -not -path '/packages*' -not -path '/var/lib/dpkg/*' -not -path '/var/cache/*' -not -path '/var/lib/apt/*'").stdout
        assert not left.strip(), left
        assert "tutti" not in self.machine.run("getent passwd; systemctl list-unit-files").stdout
        new = sorted(set(self.listing()) - set(before))
        ours = [path for path in new if not path.startswith(OTHERS) and "tutti" in path]
        assert not ours, ours
        return "a purge leaves nothing"

    def listing(self):
        return self.machine.run("cd / && find . -xdev -not -path './proc/*' -not -path './packages/*'").stdout.splitlines()

    def all(self):
        before = self.listing()
        yield self.installs_and_serves()
        yield self.is_kept_safe()
        yield self.has_manual_and_completions()
        if self.languages:
            yield self.has_debug_information()
        yield self.is_upgraded_under_load()
        yield self.a_failed_upgrade_costs_nothing()
        if self.languages:
            yield self.serves_every_language()
            yield self.is_unitd_too()
            yield self.builds_programs()
            try:
                yield self.serves_components()
            except Unavailable as reason:
                skipped(str(reason))
        yield self.logs_rotate()
        yield guides.run(self.machine)
        yield self.is_removed_and_comes_back()
        yield self.is_purged(before)


def skipped(reason):
    """As `tutti_testkit::skip!` tells it."""
    print(f"packages: skipped: {reason}", flush=True)
    if os.environ.get("TUTTI_SKIPPED"):
        with open(os.environ["TUTTI_SKIPPED"], "a", encoding="utf-8") as file:
            file.write(f"packages\t{reason}\n")


def failed_by_skipping():
    """Ends a run that has tried nothing: a machine of one's own may be unable to, but that of a workflow is made for it (`CI`)."""
    return 1 if os.environ.get("CI") else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--newer", type=Path, required=True)
    parser.add_argument("--suite")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    suite = options.suite
    if not suite:
        release = dict(line.rstrip().split("=", 1) for line in open("/etc/os-release", encoding="utf-8") if "=" in line)
        suite = release.get("VERSION_CODENAME", "").strip('"')
    packages, newer = options.packages.resolve(), options.newer.resolve()
    assert packages.parent == newer.parent, "both folders of packages are in one folder"
    began = time.monotonic()
    try:
        machine = Machine(suite, packages.parent)
    except Unavailable as reason:
        skipped(str(reason))
        return failed_by_skipping()
    passed = 0
    try:
        for said in Walk(machine, packages, newer, LANGUAGES if options.all else []).all():
            print(f"packages on {suite}: {said}", flush=True)
            passed += 1
    except BaseException:
        print(machine.run("journalctl --no-pager -u tutti | tail -n 30; tail -n 30 /var/log/tutti.log", check=False).stdout, flush=True)
        raise
    finally:
        machine.close()
    print(f"packages on {suite}: {passed} passed, 0 failed ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
