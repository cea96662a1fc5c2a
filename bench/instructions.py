#!/usr/bin/env python3
"""Counts the router's instructions for one request, by callgrind: `bench/instructions.py [--dist DIST] [--beside OTHER]`.

Times drift on a shared machine more than instructions do, but runs of one build have differed by up to a fifth: compare medians of several runs. One connection sends all
requests, one after another, or in 100 streams for HTTP/2; the figure is the difference between two runs, so that start and configuration do not count.

The router runs in valgrind by way of a copy of the program that has another path of the same length where main looks for itself
(`/proc/self/exe`). Needs valgrind, h2load, a C compiler and root.
"""

import argparse
import json
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from harness.processes import wait_until
from harness.servers import Tutti

HERE = Path(__file__).resolve().parent
OWN_PROGRAM = b"/proc/self/exe"
# Valgrind gives a program its path as argument zero, by which ours knows its role: a library puts the role there again.
ROLE = """
__attribute__((constructor)) static void name(int count, char **arguments) { (void)count; arguments[0] = "tutti: router"; }
"""
WRAPPER = """
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define AT(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
/* PR_GET_AUXV names the vDSO, which valgrind has taken away: it is refused. */
static struct sock_filter refusal[] = {
    AT(nr), IS(SYS_prctl, 0, 2), AT(args[0]), IS(0x41555856, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
};
int main(int count, char **arguments) {
    (void)count;
    if (strcmp(arguments[0], "tutti: router") != 0) {
        execv(PROGRAM, arguments);
        return 127;
    }
    char *valgrind[] = {"valgrind", "--tool=callgrind", "--callgrind-out-file=" OUTPUT "/%p", "-q", "--vgdb=no", "--dump-line=no", PROGRAM, 0};
    struct sock_fprog filter = {sizeof refusal / sizeof *refusal, refusal};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    setenv("LD_PRELOAD", ROLE, 1);
    execvp("valgrind", valgrind);
    return 127;
}
"""
# Requests of the two runs.
FEW, MANY = 500, 2500


def with_path(program, path):
    """The program with another path in place of OWN_PROGRAM: as text, and as the two words that a compiler has made of a copy of it."""
    program = program.replace(OWN_PROGRAM, path)
    first, last = re.escape(OWN_PROGRAM[:8]), re.escape(OWN_PROGRAM[-8:])

    def other(found):
        return found[0].replace(OWN_PROGRAM[:8], path[:8]).replace(OWN_PROGRAM[-8:], path[-8:])
    return re.sub(b"%b.{1,24}?%b|%b.{1,24}?%b" % (first, last, last, first), other, program, flags=re.DOTALL)


class Counted(Tutti):
    """Tutti whose router runs in callgrind."""

    start_seconds = 120
    patience = 120
    action = None
    extra = {}

    def prepare(self):
        """Makes a copy of the build in which main starts the wrapper in place of itself."""
        self.counts = self.folder / "counts"
        self.counts.mkdir()
        self.counts.chmod(0o777)
        # Without what only a debugger reads, which takes callgrind longer than main waits for the end of a router.
        program = self.folder / "tutti"
        subprocess.run(["strip", "--strip-debug", "-o", program, Path(self.dist).resolve() / "bin/tutti"], check=True)
        stub = self.stub = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))
        stub.chmod(0o755)
        link = Path("/tmp") / f"{stub.name[:5]}.own"
        assert len(str(link)) == len(OWN_PROGRAM), link
        self.link = link
        (stub / "wrapper.c").write_text(WRAPPER)
        (stub / "role.c").write_text(ROLE)
        paths = {"PROGRAM": program, "OUTPUT": self.counts, "ROLE": stub / "role.so"}
        defined = [f"-D{name}={json.dumps(str(path))}" for name, path in paths.items()]
        subprocess.run(["cc", *defined, "-o", stub / "wrapper", stub / "wrapper.c"], check=True)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", stub / "role.so", stub / "role.c"], check=True)
        link.unlink(missing_ok=True)
        link.symlink_to(stub / "wrapper")
        text = program.read_bytes()
        assert OWN_PROGRAM in text
        patched = self.folder / "dist/bin"
        patched.mkdir(parents=True)
        (patched / "tuttid").write_bytes(with_path(text, str(link).encode()))
        (patched / "tuttid").chmod(0o755)
        (self.folder / "dist/modules").symlink_to(Path(self.dist).resolve() / "modules")
        self.dist = self.folder / "dist"

    def launch(self):
        self.prepare()
        super().launch()

    def configuration(self):
        return {
            "listeners": {f"{self.place.host}:{self.port}": {"pass": "routes"}},
            "settings": {"listen_threads": 1, "http": {"idle_timeout": 3600}},
            "routes": [{"action": self.action}],
            **self.extra,
        }

    def stop(self):
        # A quick stop does not wait until callgrind has written its figures.
        for process in self.processes:
            process.stop(signal.SIGQUIT, 60)
        super().stop()
        self.link.unlink(missing_ok=True)
        shutil.rmtree(self.stub, ignore_errors=True)

    def instructions(self):
        files = list(self.counts.iterdir())
        totals = [re.search(r"^(?:summary|totals): (\d+)", file.read_text(), re.MULTILINE) for file in files]
        return sum(int(total[1]) for total in totals if total)


def upstream():
    """A server that answers 1 KB to each request, as fast as it reads it."""
    listener = socket.create_server(("127.0.0.1", 0))
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024

    def serve(connection):
        with connection:
            while connection.recv(65536):
                connection.sendall(answer)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def cases(site):
    (site / "file.txt").write_bytes(b"x" * 1024)
    (site / "app.py").write_text(
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', '5')])\n"
        "    return [b'hello']\n")
    python = {"type": "python", "path": str(site), "module": "app", "processes": 1}
    return {
        "return 200": ({"return": 200}, {}),
        "a file of 1 KB": ({"share": f"{site}$uri"}, {}),
        "WSGI hello": ({"pass": "applications/app"}, {"applications": {"app": python}}),
        "proxied, 1 KB": ({"proxy": upstream()}, {}),
    }


# Requests of 100 streams of one connection, for the same actions.
HTTP2 = {"return 200, HTTP/2": "return 200", "1 KB, HTTP/2": "a file of 1 KB"}
HTTP2_STREAMS = 100


def send(port, count):
    request = b"GET /file.txt HTTP/1.1\r\nHost: localhost\r\nUser-Agent: instructions\r\nAccept: */*\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        for _ in range(count):
            connection.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += connection.recv(65536)
            head, body = answer.split(b"\r\n\r\n", 1)
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
            while len(body) < length:
                body += connection.recv(65536)


def send_http2(port, count):
    command = ["h2load", f"-n{count}", "-c1", f"-m{HTTP2_STREAMS}", f"http://127.0.0.1:{port}/file.txt"]
    report = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert f"{count} succeeded, 0 failed" in report, report


def run(dist, site, case, count, load):
    with tempfile.TemporaryDirectory(prefix="instructions-") as folder:
        Path(folder).chmod(0o755)
        server = Counted(Path(folder) / "server", site)
        server.dist = dist
        server.action, server.extra = case
        server.start()
        # Made as root, and written at the end, when the router is another user.
        for file in server.counts.iterdir():
            file.chmod(0o666)
        try:
            load(server.port, count)
        finally:
            server.stop()
        wait_until(lambda: server.instructions() > 0, 60, "callgrind's figures")
        return server.instructions()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", default=HERE.parent / "dist")
    parser.add_argument("--beside", help="another build, for a ratio")
    parser.add_argument("--only", help="only the cases with this text in their names")
    options = parser.parse_args()
    for program in ("valgrind", "cc", "strip", "h2load"):
        if not shutil.which(program):
            parser.error(f"`{program}` is not installed")
    builds = [options.dist, *([options.beside] if options.beside else [])]
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        site = Path(folder)
        site.chmod(0o755)
        actions = cases(site)
        loads = {name: (action, send) for name, action in actions.items()}
        loads |= {name: (actions[action], send_http2) for name, action in HTTP2.items()}
        for name, (case, load) in loads.items():
            if options.only and options.only not in name:
                continue
            figures = [(run(dist, site, case, MANY, load) - run(dist, site, case, FEW, load)) // (MANY - FEW) for dist in builds]
            ratio = f"  ({figures[0] / figures[1]:.3f} of {figures[1]})" if len(figures) > 1 else ""
            print(f"{name:18} {figures[0]:8} instructions{ratio}", flush=True)


if __name__ == "__main__":
    main()
