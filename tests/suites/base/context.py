"""The context of a suite: a folder of its own, servers, and packages at named versions."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from .case import Missing

ROOT = Path(__file__).resolve().parent.parent.parent.parent
# Debian ships it as debian-archive-keyring.
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
sys.path.insert(0, str(ROOT / "bench"))

from harness.processes import Process, wait_until  # noqa: E402
from harness.servers import Tutti, free_port, takes_connections  # noqa: E402


class SuiteServer(Tutti):
    """A server with the configuration that `configure(PORT)` returns."""

    def __init__(self, folder, dist, configure):
        self.dist = dist
        self.configure = configure
        super().__init__(folder, folder, 1)

    def configuration(self):
        return self.configure(self.port)


class Context:
    """Everything that a suite starts here is ended when it is over. What is downloaded is kept below `.work/suites` for the next run."""

    def __init__(self, folder, dist, kept):
        self.folder = Path(folder)
        self.dist = Path(dist)
        self.kept = Path(kept)
        self.started = []

    # Servers.

    def server(self, configure, name="server"):
        """A started server: `configure(PORT)` returns its configuration, with a listener at 127.0.0.1:PORT."""
        server = SuiteServer(self.folder / name, self.dist, configure)
        self.started.append(server)
        return server.start()

    def process(self, arguments, port=None, name="program", **options):
        """A started program, which takes connections at 127.0.0.1:PORT when this returns."""
        process = Process(arguments, self.folder / f"{name}.log", **options)
        self.started.append(process)
        if port:
            def answers():
                if not process.is_alive():
                    raise RuntimeError(f"{name} ended at start: {process.log.read_text(errors='replace')[-2000:]}")
                return takes_connections("127.0.0.1", port)
            wait_until(answers, 60, f"{name} on port {port}; log: {process.log.read_text(errors='replace')[-2000:]}")
        return process

    @staticmethod
    def free_port():
        return free_port()

    def certificate(self):
        """The files of a certificate for localhost and of its key."""
        chain, key = self.folder / "chain.pem", self.folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                        "-keyout", key, "-out", chain], check=True, capture_output=True)
        return chain, key

    @staticmethod
    def open_to_all(*folders, folder_mode=0o755):
        """Lets applications, which run as another user, read all below these folders, and write there with the mode 777."""
        for each in (path for folder in folders for path in (folder, *folder.rglob("*"))):
            each.chmod(folder_mode if each.is_dir() else 0o644)

    def stop(self):
        for each in reversed(self.started):
            each.stop()
        self.started = []

    # These have to be installed here.

    @staticmethod
    def program(name, package=None):
        """The path of an installed program."""
        path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/go/bin")
        if not path:
            raise Missing(f"`{name}` is not installed{f' (Debian: {package})' if package else ''}")
        return path

    def module(self, pattern):
        """The language host below `modules` that matches."""
        found = sorted((self.dist / "modules").glob(pattern))
        if not found:
            raise Missing(f"{self.dist}/modules has no {pattern}")
        return found[-1]

    # Packages at named versions, fetched once.

    def pip(self, *pins):
        """A folder for `PYTHONPATH` with these packages (`name==version`) and what they need."""
        pip = self._pip()
        return self._kept("pip", pins, lambda folder: [*pip, "install", "--target", folder, *pins])

    def sdist(self, pin):
        """The unpacked source package of `name==version`, which has the tests that a wheel lacks."""
        pip = self._pip()
        folder = self._kept("sdist", (pin,), lambda folder: [*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", folder, pin])
        unpacked = folder / "unpacked"
        if not unpacked.exists():
            archive = next(folder.glob("*.tar.gz"))
            with tarfile.open(archive) as tar:
                tar.extractall(folder / "partial", filter="data")
            (folder / "partial").rename(unpacked)
        return next(unpacked.iterdir())

    def npm(self, *pins):
        """A folder whose `node_modules` has these packages (`name@version`)."""
        npm = self.program("npm")
        return self._kept("npm", pins, lambda folder: [
            npm, "install", "--prefix", folder, "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error", *pins])

    def maven(self, *pins):
        """A folder with these archives (`group:artifact:version[:type[:classifier]]`)."""
        mvn = self.program("mvn", "maven")
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        return self._kept("maven", pins, *[
            lambda folder, pin=pin: [mvn, "--quiet", "--batch-mode", copy, f"-Dartifact={pin}", f"-DoutputDirectory={folder}"] for pin in pins])

    def maven_dependencies(self, pom):
        """A folder with the archives that a pom.xml names, and what they need."""
        mvn = self.program("mvn", "maven")
        copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        name = f"{pom.parent.name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
        return self._kept("maven", (name,), lambda folder: [
            mvn, "--quiet", "--batch-mode", "--file", pom, copy, f"-DoutputDirectory={folder}"])

    def go(self, pin):
        """A folder with the programs of `module/path@version`."""
        go = self.program("go")
        return self._kept("go", (pin,), lambda folder: ["env", f"GOBIN={folder}", go, "install", pin])

    def git(self, repository, commit):
        """A work tree of a public repository (`host/owner/name`) at a commit, for what no registry has."""
        git = self.program("git")
        try:
            return self._kept("git", (f"{repository.rpartition('/')[2]}@{commit}",), *[lambda _, words=words: [git, *words] for words in (
                ("init", "--quiet"),
                ("fetch", "--quiet", "--depth", "1", f"https://{repository}", commit),
                ("-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"),
            )])
        except RuntimeError as reason:
            raise Missing(f"{repository} cannot be fetched: {str(reason).strip().splitlines()[-1]}") from reason

    def crate(self, name, version):
        """The source of `name` at `version`, which may have its tests' data."""
        cargo = self.program("cargo")
        manifest = f'[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n[workspace]\n'
        write = ["sh", "-c", 'mkdir src && : > src/lib.rs && printf %s "$1" > Cargo.toml', "sh", manifest]
        folder = self._kept("crate", (f"{name}@{version}",), lambda _: write, lambda _: [cargo, "vendor", "--quiet", "--versioned-dirs", "vendor"])
        return folder / "vendor" / f"{name}-{version}"

    def debian_source(self, name):
        """The unpacked source package of Debian's main archive, which has the tests that packages lack."""
        apt, _ = self.program("apt-get"), self.program("dpkg-source", "dpkg-dev")
        done = subprocess.run([apt, "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                              check=True, capture_output=True, text=True)
        archives = sorted({line for line in done.stdout.splitlines() if line.split()[0].rstrip("/").endswith("/debian")})
        if not archives:
            raise Missing("apt knows no archive of Debian")
        listed = "".join(f"deb-src [signed-by={KEYRING}] {archive}\n" for archive in archives)

        def command(folder, *words):
            lists, cache = folder / "apt/lists", folder / "apt/cache"
            return [apt, "-qq", *(word for option in (
                f"Dir::Etc::SourceList={folder}/sources.list", "Dir::Etc::SourceParts=-", f"Dir::State::Lists={lists}", f"Dir::Cache={cache}",
                "APT::Sandbox::User=root") for word in ("-o", option)), *words]

        make = 'mkdir -p apt/lists/partial apt/cache/archives/partial && printf %s "$1" > sources.list'
        try:
            folder = self._kept("debian", (name,), lambda _: ["sh", "-c", make, "sh", listed], lambda folder: command(folder, "update"),
                                lambda folder: command(folder, "source", name), lambda _: ["rm", "-r", "apt"])
        except RuntimeError as reason:
            raise Missing(f"the source of {name} cannot be fetched: {str(reason).strip().splitlines()[-1]}") from reason
        return next(each for each in folder.iterdir() if each.is_dir())

    def _pip(self):
        """pip of an environment of its own: Debian's Python has none."""
        python = self.kept / "python/bin/python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        return [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]

    def _kept(self, kind, pins, *commands):
        name = "+".join(pin.replace("/", "_").replace(":", "_") for pin in pins)
        folder = self.kept / kind / name
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            for command in commands:
                done = subprocess.run([str(word) for word in command(partial)], cwd=partial, stdin=subprocess.DEVNULL, capture_output=True, text=True)
                if done.returncode:
                    raise RuntimeError(f"`{' '.join(pins)}` cannot be fetched: {done.stdout[-2000:]}{done.stderr[-2000:]}")
            partial.rename(folder)
        return folder
