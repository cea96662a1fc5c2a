"""PHP's tests of FPM in the language host, as far as a client sees what they are about: bodies, fields, statuses, directives, `.user.ini`"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from base import Case
from base.phpt import Request, Test
from php_tests import DIRECTIVES, PHP, ask

VERSION = f"the tests of FPM in Debian's source package {PHP}"
FOLDER = "sapi/fpm/tests"
BESIDE = ("ext/standard/tests/misc/browscap.ini",)
TESTER = Path(__file__).resolve().parent / "fpm/tester.inc"
NOT_APPLICABLE = "\nDOES NOT APPLY: "
SECONDS = 60


def run(context):
    # Where cargo has built it, its name has no version.
    context.module("tutti-ph*[p0-9]")
    php = context.program(PHP, f"{PHP}-cli")
    source = context.debian_source(PHP)
    folder = context.folder / "tree" / FOLDER
    shutil.copytree(source / FOLDER, folder)
    for beside in BESIDE:
        (context.folder / "tree" / beside).parent.mkdir(parents=True)
        shutil.copy(source / beside, context.folder / "tree" / beside)
    folder.chmod(0o777)
    shutil.copy(TESTER, folder / TESTER.name)
    ini = context.folder / "php.ini"
    ini.write_text(DIRECTIVES)
    ini.chmod(0o644)
    (folder / "extensions.php").write_text("<?php echo implode(' ', get_loaded_extensions());")
    server = context.server(lambda port: {
        "listeners": {f"127.0.0.1:{port}": {"pass": "applications/tests"}},
        "applications": {"tests": {"type": "php", "root": str(folder), "processes": 1, "options": {"file": str(ini)}}},
    })
    extensions = ask(server.port, "localhost", Request("GET", "/extensions.php", [], b"")).body.decode().lower()
    environment = {"TUTTI_PORT": str(server.port), "TUTTI_CONTROL": str(server.control), "TUTTI_LOG": str(server.folder / "log"),
                   "TUTTI_INI": str(ini), "TUTTI_EXTENSIONS": extensions, "PATH": os.environ["PATH"]}
    for file in sorted((source / FOLDER).glob("*.phpt")):
        test = Test(file, source)
        script = folder / f"{file.stem}.php"
        script.write_bytes(test.script)
        done = subprocess.run([php, "-d", "display_errors=1", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        (folder / ".user.ini").unlink(missing_ok=True)
        output = done.stdout.decode("latin-1")
        if NOT_APPLICABLE in output:
            yield Case(test.name, "skip", output.partition(NOT_APPLICABLE)[2].strip())
        elif "Undefined constant FPM" in output:
            yield Case(test.name, "skip", "it is about FPM's files")
        elif test.is_expected(output.strip().replace("\r\n", "\n")):
            yield Case(test.name, "pass")
        else:
            yield Case(test.name, "fail", " ".join(re.sub(r"/\S*/tests/", "", output).split())[:200])
