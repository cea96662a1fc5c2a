"""Jakarta Servlet 6.1: the TCK's applications, deployed to the language host by a container adapter for Arquillian"""

import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from base import Case

TAG = "6.1.2-RELEASE-tck"
COMMIT = "8781209aa2857a73325f07102a80e54c1094e109"
VERSION = f"jakartaee/servlet {TAG}"
HERE = Path(__file__).resolve().parent / "tck"
SECONDS = 5400
EXTENSION = "META-INF/services/org.jboss.arquillian.core.spi.LoadableExtension"
# These are parts of the console launcher.
WITHIN = ("junit-jupiter", "junit-platform-engine", "junit-platform-commons", "opentest4j", "apiguardian")
LEFT_OUT = {
    "servlet.tck.spec.security.clientcert.ClientCertTests": "it needs a listener with TLS that asks for the TCK's client certificate: not run yet",
    "servlet.tck.spec.security.clientcertanno.ClientCertAnnoTests": "it needs a listener with TLS that asks for the TCK's client certificate: not run yet",
}


def compile_java(classes, sources, path):
    """Compiles the sources of a folder, and copies what is beside them."""
    files = [str(file) for file in sources.rglob("*.java")]
    arguments = classes.with_suffix(".sources")
    arguments.write_text("\n".join(files))
    subprocess.run(["javac", "-nowarn", "-proc:none", "--release", "17", "-d", classes, "-cp", path, f"@{arguments}"], check=True, capture_output=True)
    for file in sources.rglob("*"):
        if file.is_file() and file.suffix != ".java":
            target = classes / file.relative_to(sources)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


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


def run(context):
    context.module("tutti-java")
    context.program("javac", "openjdk-17-jdk-headless")
    source = context.git("github.com/jakartaee/servlet", COMMIT) / "tck"
    libraries = context.maven_dependencies(HERE / "pom.xml")
    jars = ":".join(str(jar) for jar in sorted(libraries.glob("*.jar")) if not jar.name.startswith(WITHIN))
    adapter, classes, wars, reports = (context.folder / name for name in ("adapter", "classes", "wars", "reports"))
    for folder in (adapter, classes, wars, reports):
        folder.mkdir()
    wars.chmod(0o755)
    compile_java(adapter, HERE, jars)
    (adapter / EXTENSION).parent.mkdir(parents=True)
    (adapter / EXTENSION).write_text("tutti.tck.TuttiContainer\n")
    for module in ("tck-util", "tck-runtime"):
        compile_java(classes, source / module / "src/main/java", f"{classes}:{jars}")
        resources = source / module / "src/main/resources"
        if resources.exists():
            shutil.copytree(resources, classes, dirs_exist_ok=True)
    server = context.server(lambda port: {"listeners": {f"127.0.0.1:{port}": {"pass": "routes"}}, "routes": [{"action": {"return": 404}}]})
    subprocess.run([
        "java", "-Xmx512m", f"-Djava.io.tmpdir={context.folder}", f"-Dtutti.control={server.control}", f"-Dtutti.folder={wars}",
        "-Dservlet.tck.support.crossContext=false", "-Dservlet.tck.support.http2Push=false", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "-cp", f"{adapter}:{classes}:{jars}", "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none",
        f"--reports-dir={reports}", "--include-classname=.*Tests?", *(f"--exclude-classname={name}" for name in LEFT_OUT),
        f"--scan-classpath={classes}",
    ], cwd=HERE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
    yield from results(reports / "TEST-junit-jupiter.xml")
    for name, reason in LEFT_OUT.items():
        yield Case(name, "skip", reason)
