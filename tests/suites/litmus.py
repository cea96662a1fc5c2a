"""WebDAV's methods, fields and status codes: litmus, against WsgiDAV in the language host and Apache's mod_dav behind the proxy"""

import re
import shutil
import subprocess

from base import Case

PACKAGES = ("wsgidav==4.4.0",)
VERSION = "litmus and mod_dav of Debian, WsgiDAV 4.4.0"
PROGRAMS = ("basic", "copymove", "props", "locks", "http")
SECONDS = 120

APPLICATION = """
from wsgidav.fs_dav_provider import FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp

application = WsgiDAVApp({{
    "provider_mapping": {{"/": FilesystemProvider("{files}")}},
    "simple_dc": {{"user_mapping": {{"*": True}}}},
    "lock_storage": True,
    "property_manager": True,
    "logging": {{"enable": False}},
    "verbose": 1,
}})
"""

APACHE = """
ServerRoot {folder}
Listen 127.0.0.1:{port}
ServerName localhost
PidFile {folder}/pid
ErrorLog {folder}/error.log
User www-data
Group www-data
DavLockDB {folder}/locks/db
DocumentRoot {folder}/files
<Directory {folder}/files>
    Dav On
    Require all granted
</Directory>
"""
MODULES = ("mpm_event", "authz_core", "dav", "dav_fs")
MODULES_FOLDER = "/usr/lib/apache2/modules"

# A test's number and name, which litmus writes again before the outcome.
TEST = re.compile(r"^ *(?P<number>\d+)\. (?P<name>\w+)\.* ?(?P<rest>.*)$")


def cases(prefix, text):
    """The cases of one program's output. Some names are there more than once, so the number is a part of the name."""
    told = {}
    name = None
    for line in re.split(r"[\r\n]+", text):
        if test := TEST.match(line):
            name, line = f"{prefix}/{int(test['number']):02}-{test['name']}", test["rest"]
        if name:
            told.setdefault(name, []).append(line.strip(" ."))
        if line.startswith("<-"):
            name = None
    for name, lines in told.items():
        text = " ".join(filter(None, lines))
        if "FAIL" in text:
            yield Case(name, "fail", text.partition("FAIL")[2].strip(" ()"))
        elif "SKIPPED" in text:
            yield Case(name, "skip", text.partition("SKIPPED")[2].strip(" ()") or "litmus skips it after a failure")
        elif "WARNING" in text:
            yield Case(name, "warn", text.partition("WARNING:")[2].partition("pass")[0].strip(" .("))
        else:
            yield Case(name, "pass" if "pass" in text else "fail", text)


def run_litmus(litmus, folder, way, port):
    for program in PROGRAMS:
        done = subprocess.run(
            [litmus, "--keep-going", f"http://127.0.0.1:{port}/"], cwd=folder, env={"TESTS": program, "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS)
        found = list(cases(f"{way}/{program}", done.stdout))
        # A program that fails at its start leaves the rest out without a word.
        yield from found or [Case(f"{way}/{program}", "fail", "it has no result")]


def writable(folder):
    folder.mkdir(parents=True)
    shutil.chown(folder, "www-data", "www-data")
    return folder


def run(context):
    litmus, apache = context.program("litmus", "litmus"), context.program("apache2", "apache2-bin")
    context.module("tutti-python*")
    packages = context.pip(*PACKAGES)
    hosted, proxied = context.folder / "hosted", context.folder / "proxied"
    for folder in (hosted, proxied):
        folder.mkdir()
    files = hosted / "files"
    (hosted / "dav.py").write_text(APPLICATION.format(files=files))
    files.mkdir()
    files.chmod(0o777)
    for name in ("files", "locks"):
        writable(proxied / name)
    behind = context.free_port()
    (proxied / "apache.conf").write_text(
        "".join(f"LoadModule {name}_module {MODULES_FOLDER}/mod_{name}.so\n" for name in MODULES) + APACHE.format(folder=proxied, port=behind))
    context.process([apache, "-X", "-f", proxied / "apache.conf"], behind, "apache")
    ways = {
        "hosted": {"pass": "applications/dav"},
        "proxied": {"proxy": f"http://127.0.0.1:{behind}"},
    }
    for way, action in ways.items():
        server = context.server(lambda port, action=action: {
            "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
            "routes": [{"action": action}],
            "applications": {"dav": {"type": "python", "path": [str(hosted), str(packages)], "module": "dav", "processes": 1}},
        }, f"server-{way}")
        yield from run_litmus(litmus, context.folder, way, server.port)
