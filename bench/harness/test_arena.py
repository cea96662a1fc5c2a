"""Our entries for HttpArena are complete as they are exported, and the requests of their loads are what they should be."""

import importlib.util
import json
import tempfile
import unittest
from pathlib import Path

from . import arena

# The fields of `meta.json`, and their types.
META = {"display_name": str, "language": str, "type": str, "engine": str, "description": str, "repo": str, "enabled": bool, "tests": list, "maintainers": list}


def exporting():
    """`bench/arena/export.py` as a module."""
    spec = importlib.util.spec_from_file_location("export", arena.ARENA / "export.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Entries(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def exported(self, entry):
        folder = self.folder / entry
        exporting().write(entry, folder, "https://example.com/tutti", "registry.example.com/tutti")
        return folder

    def test_all_folders_are_entries(self):
        self.assertEqual(sorted(folder.name for folder in arena.ARENA.iterdir() if (folder / "meta.json").exists()), sorted(arena.ENTRIES))

    def test_the_description_has_what_it_must(self):
        for entry in arena.ENTRIES:
            meta = json.loads((self.exported(entry) / "meta.json").read_text())
            self.assertEqual({name: type(value) for name, value in meta.items()}, META, entry)
            self.assertIn(meta["type"], {"production", "infrastructure"}, entry)
            self.assertEqual(meta["repo"], "https://example.com/tutti")
            self.assertLessEqual(set(meta["tests"]), set(arena.PROFILES), entry)

    def test_an_image_copies_what_is_there(self):
        for entry in arena.ENTRIES:
            folder = self.exported(entry)
            lines = [line.split() for line in (folder / "Dockerfile").read_text().splitlines()]
            self.assertTrue(any(words[:1] == ["FROM"] and words[1].startswith("registry.example.com/tutti:") for words in lines), entry)
            copied = [name for words in lines if words[:1] == ["COPY"] and not words[1].startswith("--") for name in words[1:-1]]
            self.assertIn("site.json", copied)
            for name in copied:
                self.assertTrue((folder / name).exists(), f"{entry}: {name}")

    def test_compose_files_mount_what_is_there(self):
        for entry, profile in (("gateway", "gateway"), ("gateway-h3", "gateway-h3")):
            folder = self.exported(entry)
            text = (folder / f"compose.{profile}.yml").read_text()
            self.assertIn("./server.json:", text)
            self.assertEqual(list(json.loads((folder / "server.json").read_text())["listeners"]), ["127.0.0.1:8090"])
            self.assertEqual(json.loads((folder / "site.json").read_text())["upstreams"]["server"]["servers"], {"127.0.0.1:8090": {}})


class Requests(unittest.TestCase):
    def test_a_request_without_a_body(self):
        self.assertEqual(arena.Request("/a?b=1", fields=(("X", "y"),)).raw("h"), b"GET /a?b=1 HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n")

    def test_a_body_with_its_length(self):
        head, _, body = arena.Request("/", b"20").raw("h", is_last=True).partition(b"\r\n\r\n")
        self.assertEqual(head.split(b"\r\n")[1:], [b"Host: h", b"Content-Type: text/plain", b"Content-Length: 2", b"Connection: close"])
        self.assertEqual(body, b"20")

    def test_a_body_in_one_chunk(self):
        raw = arena.Request("/", b"0123456789abcdef", is_chunked=True).raw("h")
        self.assertTrue(raw.endswith(b"Transfer-Encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"))


if __name__ == "__main__":
    unittest.main()
