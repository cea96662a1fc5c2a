"""PHP's own tests of requests in the language host: variables of forms, cookies and uploads, fields, sessions, filters, compression, phars."""

import os
import re
import shutil

from base import Case
from base.phpt import Request, Test
from base.wire import Connection
from harness.processes import wait_until

PHP = "php8.2"
VERSION = "the tests of requests in Debian's source package php8.2"
# Tests of FPM start one with pools of their own, and read its log.
FOLDERS = ("Zend", "ext", "sapi", "tests")
SECONDS = 30
# All tests of these folders are about what a script gives a client; those without a section of a request are a GET.
OF_ANSWERS = ("tests/basic", "tests/output", "ext/session/tests")
COMMAND_LINE = ("ARGS", "STDIN", "CAPTURE_STDIO", "PHPDBG", "REDIRECTTEST")

# The directives that PHP's own runner gives each test.
DIRECTIVES = """
output_handler =
open_basedir =
disable_functions =
output_buffering = Off
error_reporting = 32767
display_errors = 1
display_startup_errors = 1
log_errors = 0
html_errors = 0
report_memleaks = 1
docref_root =
docref_ext = .html
error_prepend_string =
error_append_string =
auto_prepend_file =
auto_append_file =
ignore_repeated_errors = 0
precision = 14
serialize_precision = -1
memory_limit = 128M
opcache.file_update_protection = 0
opcache.revalidate_freq = 0
zend.assertions = 1
zend.exception_ignore_args = 0
zend.exception_string_param_max_len = 15
short_open_tag = 0
"""

FPM = """
[global]
error_log = {folder}/fpm.log
daemonize = no
[tests]
{user}
listen = {folder}/fpm.sock
pm = static
pm.max_children = 1
catch_workers_output = yes
"""
NGINX = """
daemon off; {user}
worker_processes 1; pid {folder}/pid; error_log {folder}/nginx.log crit;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {folder}/body; fastcgi_temp_path {folder}/fastcgi; proxy_temp_path {folder}/proxy;
    scgi_temp_path {folder}/scgi; uwsgi_temp_path {folder}/uwsgi;
    server {{
        listen 127.0.0.1:{port};
        root {root};
        location / {{
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_param PATH_INFO $fastcgi_path_info;
            fastcgi_pass unix:{folder}/fpm.sock;
        }}
    }}
}}
"""


class Group:
    """Tests of one folder with the same directives, which are an application."""

    def __init__(self, number, folder, settings):
        self.name = f"g{number}"
        self.folder = folder
        self.settings = settings
        self.tests = []

    def application(self, ini):
        return {"type": "php", "root": str(self.folder), "processes": 1, "options": {"file": str(ini), "user": self.settings}}


class Reference:
    """nginx with FPM in place of Tutti, for the tests that are not met."""

    def __init__(self, context, ini):
        self.context, self.ini = context, ini
        self.nginx, self.fpm = context.program("nginx", "nginx-light"), context.program(f"php-fpm{PHP.removeprefix('php')}", f"{PHP}-fpm")

    def answer(self, group, run):
        """The result of `run(PORT)` with the directives of the group."""
        folder = self.context.folder / f"reference-{group.name}"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        ini = folder / "php.ini"
        ini.write_text(self.ini.read_text() + "".join(f"{name} = \"{value}\"\n" for name, value in group.settings.items()))
        is_root = os.geteuid() == 0
        user = "user = nobody\ngroup = nogroup\nlisten.owner = nobody\nlisten.group = nogroup" if is_root else ""
        (folder / "fpm.conf").write_text(FPM.format(folder=folder, user=user))
        port = self.context.free_port()
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, root=group.folder, user="user nobody nogroup;" if is_root else ""))
        started = [self.context.process([self.fpm, "-F", "-y", folder / "fpm.conf", "-c", ini], name=f"fpm-{group.name}")]
        wait_until((folder / "fpm.sock").exists, SECONDS, "php-fpm")
        started.append(self.context.process([self.nginx, "-p", folder, "-c", folder / "nginx.conf", "-e", folder / "nginx.log"], port, f"nginx-{group.name}"))
        try:
            return run(port)
        finally:
            for each in reversed(started):
                each.stop()


def ask(port, host, request):
    with Connection(port) as connection:
        connection.send(request.encode(host))
        return connection.response(SECONDS)


def copied(source, tree):
    """The tests of requests, and a copy of the folders that they are in."""
    files = sorted(file for name in FOLDERS for file in (source / name).rglob("*.phpt"))
    tests = [test for test in (Test(file, source) for file in files if b"--EXPECT" in file.read_bytes())
             if test.is_of_requests() or test.name.startswith(OF_ANSWERS)]
    # A script may include files beside it, and below its folder.
    for folder in {test.file.parent for test in tests}:
        shutil.copytree(folder, tree / folder.relative_to(source), dirs_exist_ok=True)
    for folder, _, _ in os.walk(tree):
        os.chmod(folder, 0o777)
    return tests


def groups_of(tests, source, tree, temporary):
    groups = {}
    for test in tests:
        folder = tree / test.file.parent.relative_to(source)
        settings = test.settings(folder, temporary)
        key = (folder, tuple(sorted(settings.items())))
        groups.setdefault(key, Group(len(groups), folder, settings)).tests.append(test)
    return list(groups.values())


def extensions(port, group):

    file = group.folder / "extensions-of-the-host.php"
    file.write_text("<?php echo implode(' ', get_loaded_extensions());")
    return {name.lower() for name in ask(port, group.name, Request("GET", f"/{file.name}", [], b"")).body.decode().split()}


def run_test(test, group, port, loaded):
    """The outcome of one test at a server: (outcome, detail)."""
    if section := next((name for name in COMMAND_LINE if name in test.sections), None):
        return "skip", f"it is about a command line: `{section}`"
    if missing := [name for name in test.lines("EXTENSIONS") if name.lower() not in loaded]:
        return "skip", f"Debian's PHP has no {', '.join(missing)} here"
    request = test.request()
    if any("\n" in value for _, value in request.fields):
        return "skip", "its cookies are lines, which a field cannot have (RFC 9110 section 5.5)"
    script = group.folder / f"{test.file.stem}.php"
    environment = test.environment
    if environment.get("SCRIPT_NAME", f"/{script.name}") != f"/{script.name}":
        return "skip", "its environment has another script's name"

    def part(section):
        file = group.folder / f"{test.file.stem}.{section.lower()}.php"
        file.write_text(test.sections[section], "latin-1")
        answer = ask(port, group.name, Request("GET", f"/{file.name}", [], b""))
        return answer.body.decode("latin-1").strip() if answer else ""

    if "SKIPIF" in test.sections and (told := part("SKIPIF")).lower().startswith("skip"):
        return "skip", f"the test says: {told}"
    script.write_bytes(test.script)
    try:
        answer = ask(port, group.name, request)
    except ValueError as error:
        return "fail", str(error)
    wrong = test.difference(answer) if answer else "no answer"
    if "CLEAN" in test.sections:
        part("CLEAN")
    if "XFAIL" in test.sections and wrong:
        return "skip", "its authors expect it to fail"
    # Paths, and the names of sessions, differ from run to run.
    return ("fail", re.sub(r"[0-9a-f]{32}|\S*/tree/", "", wrong)) if wrong else ("pass", "")


def run(context):
    # Where cargo has built it, its name has no version.
    context.module("tutti-ph*[p0-9]")
    source = context.debian_source(PHP)
    tree, temporary = context.folder / "tree", context.folder / "temporary"
    for folder in (tree, temporary):
        folder.mkdir()
        folder.chmod(0o777)
    ini = context.folder / "php.ini"
    ini.write_text(f"{DIRECTIVES}session.save_path = {temporary}\n")
    ini.chmod(0o644)
    groups = groups_of(copied(source, tree), source, tree, temporary)
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
        "routes": [{"match": {"host": group.name}, "action": {"pass": f"applications/{group.name}"}} for group in groups],
        "applications": {group.name: group.application(ini) for group in groups},
    })
    reference = Reference(context, ini)
    loaded = extensions(server.port, groups[0])
    for group in groups:
        for test in group.tests:
            outcome, detail = run_test(test, group, server.port, loaded)
            if outcome == "fail":
                expected = reference.answer(group, lambda port, test=test, group=group: run_test(test, group, port, loaded))
                if expected == (outcome, detail):
                    outcome, detail = "skip", "it fails with nginx and FPM here, too, with the same answer"
                else:
                    detail += f"; with nginx and FPM: {expected[1] or 'as expected'}"
            yield Case(test.name, outcome, detail)
