"""A site of files, as it stands on the old server and is asked on both."""

from imports.replay import requests_for


class FileSite:
    """Its files, what is asked of it, and what may differ; `launch` starts the old server, `self.old`."""

    has_php = True
    lost = ()
    allowed = ()
    scrub = ()
    hosts = ("site.example",)
    folders = ("/",)
    fields = ()
    scripts = ("/index.php",)
    more = ()
    adjust = None
    pool_more = ""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "site"

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def start_old(self):
        self.root.mkdir()
        self.prepare()
        for path in [self.root, *self.root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        return self.launch()

    def paths(self):
        """The files that anybody may ask for, at most thirty."""
        return [path for path in (f"/{path.relative_to(self.root)}" for path in sorted(self.root.rglob("*")) if path.is_file()) if not path.endswith(".php")][:30]

    def requests(self):
        return requests_for(self.paths(), self.folders, self.hosts, self.scripts, self.extra())

    def extra(self):
        return ()

    def stop(self):
        self.old.stop()
