"""Runs a TCK of Jakarta EE: its tests deploy applications to the language host for Java, by a container adapter for Arquillian.

No registry has the TCKs, and their licence allows to run them, so each is unpacked by hand: `distribution` says where.
"""

import shutil
import subprocess
import xml.etree.ElementTree as ET
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .case import Case, Missing

HERE = Path(__file__).resolve().parent.parent / "tck"
EXTENSION = "META-INF/services/org.jboss.arquillian.core.spi.LoadableExtension"
# These are parts of the console launcher.
WITHIN = ("junit-jupiter", "junit-platform-engine", "junit-platform-commons", "opentest4j", "apiguardian")
# Some tests wait for minutes, so groups of classes run side by side, each with a server of its own.
SIDE_BY_SIDE = 3
CLASSES_IN_GROUP = 8
SECONDS = 5400


class Tck:
    """The tests in the archives `pattern` of `name`, a distribution of Eclipse."""

    def __init__(self, context, name, pattern):
        context.module("tutti-java")
        context.program("javac", "openjdk-17-jdk-headless")
        self.context = context
        self.archives = distribution(context, name, pattern)
        libraries = context.maven_dependencies(HERE / "pom.xml")
        self.libraries = [jar for jar in sorted(libraries.glob("*.jar")) if not jar.name.startswith(WITHIN)]
        self.adapter = context.folder / "adapter"
        (self.adapter / EXTENSION).parent.mkdir(parents=True)
        (self.adapter / EXTENSION).write_text("tutti.tck.TuttiContainer\n")
        subprocess.run(["javac", "-nowarn", "--release", "17", "-d", self.adapter, "-cp", path(self.libraries), *HERE.glob("*.java")],
                       check=True, capture_output=True)

    def classes(self, *suffixes):
        """The classes with such names, which are the TCK's tests."""
        names = {name for archive in self.archives for name in zipfile.ZipFile(archive).namelist()}
        return sorted(
            name.removesuffix(".class").replace("/", ".") for name in names
            if "$" not in name and name.endswith(tuple(f"{suffix}.class" for suffix in suffixes)))

    def run(self, classes, properties, beside=()):
        """The cases of these classes; `beside` has more archives for the tests."""
        groups = [classes[start:start + CLASSES_IN_GROUP] for start in range(0, len(classes), CLASSES_IN_GROUP)]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for cases in pool.map(lambda group: self.group(*group, properties, beside), enumerate(groups)):
                yield from cases

    def group(self, number, classes, properties, beside):
        folder = self.context.folder / f"group-{number}"
        for each in (folder, folder / "wars"):
            each.mkdir(mode=0o755)
        server = self.context.server(
            lambda port: {"listeners": {f"127.0.0.1:{port}": {"pass": "routes"}}, "routes": [{"action": {"return": 404}}]}, f"group-{number}/server")
        settings = {"java.io.tmpdir": folder, "tutti.control": server.control, "tutti.folder": folder / "wars",
                    "org.slf4j.simpleLogger.defaultLogLevel": "off", **properties}
        subprocess.run([
            "java", "-Xmx512m", *(f"-D{name}={value}" for name, value in settings.items()),
            "-cp", path([self.adapter, *self.archives, *beside, *self.libraries]), "org.junit.platform.console.ConsoleLauncher", "execute",
            "--disable-banner", "--details=none", f"--reports-dir={folder}", *(f"--select-class={name}" for name in classes),
        ], cwd=HERE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
        cases = list(results(folder / "TEST-junit-jupiter.xml"))
        server.stop()
        shutil.rmtree(folder / "wars")
        return cases


def distribution(context, name, pattern):
    """The archives of a distribution that was unpacked by hand."""
    folder = context.kept / "tck" / name
    found = sorted(folder.rglob(pattern))
    if not found:
        raise Missing(f"{folder} has no {pattern}: unpack jakarta-{name}.zip there, which Eclipse publishes with the specification")
    return found


def path(files):
    return ":".join(str(file) for file in files)


def results(report):
    """The cases of a JUnit report; a class whose deployment failed has one of its own."""
    for test in ET.parse(report).getroot().iter("testcase"):
        name = f"{test.get('classname')}.{test.get('name').partition('(')[0]}"
        wrong = next((child for child in test if child.tag in ("failure", "error")), None)
        if wrong is not None:
            yield Case(name, "fail", (wrong.get("message") or wrong.get("type") or "").split("\n")[0][:200])
        elif test.find("skipped") is not None:
            yield Case(name, "skip", "the TCK leaves it out for a server without HTTP/2 push and without access to other applications")
        else:
            yield Case(name, "pass")
