"""Reads PHP's `.phpt` tests, and compares an answer with what they expect; run-tests.php of PHP's source says what the sections mean."""

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SECTION = re.compile(r"^--([A-Z_]+)--[ \t\r]*$", re.MULTILINE)
# These make a test one of a request.
OF_REQUESTS = ("GET", "POST", "POST_RAW", "PUT", "GZIP_POST", "DEFLATE_POST", "COOKIE", "CGI", "EXPECTHEADERS")
TARGET = "!#$%&'()*+,/:;=?@[]^`{|}\"<>\\"
FORM = "application/x-www-form-urlencoded"
PLACEHOLDERS = {
    "%e": "/", "%s": r"[^\r\n]+", "%S": r"[^\r\n]*", "%a": r".+", "%A": r".*", "%w": r"\s*", "%i": r"[+-]?\d+", "%d": r"\d+",
    "%x": r"[0-9a-fA-F]+", "%f": r"[+-]?(?:\d+|(?=\.\d))(?:\.\d+)?(?:[Ee][+-]?\d+)?", "%c": r".", "%0": r"\x00",
}


@dataclass
class Request:
    """A request as the sections describe it; text is latin-1."""

    method: str
    target: str
    fields: list
    body: bytes

    def encode(self, host):
        lines = [f"{self.method} {self.target} HTTP/1.1", f"Host: {host}", "Connection: close", *(f"{name}: {value}" for name, value in self.fields)]
        if self.body or self.method != "GET":
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


class Test:
    """A `.phpt` file below the source's folder `root`; its name is its path there."""

    def __init__(self, file, root):
        self.file = Path(file)
        self.name = str(self.file.relative_to(root).with_suffix(""))
        _, *parts = SECTION.split(self.file.read_bytes().decode("latin-1"))
        self.sections = {}
        for title, text in zip(parts[::2], parts[1::2], strict=True):
            self.sections[title] = text.removeprefix("\r").removeprefix("\n")

    def is_of_requests(self):
        return any(name in self.sections for name in OF_REQUESTS)

    def lines(self, section):
        return [line.strip() for line in re.split(r"[\r\n]+", self.sections.get(section, "")) if line.strip()]

    @property
    def script(self):
        """The script: one that is another file of the source is read from there."""
        if external := self.sections.get("FILE_EXTERNAL"):
            return (self.file.parent / external.strip()).read_bytes()
        text = self.sections["FILE"] if "FILE" in self.sections else self.sections["FILEEOF"].rstrip("\r\n")
        return text.encode("latin-1")

    def settings(self, folder, temporary):
        """The directives of `INI`, for a test that is run in `folder`."""
        found = {}
        for line in self.lines("INI"):
            name, separator, value = line.replace("{PWD}", str(folder)).replace("{TMP}", str(temporary)).partition("=")
            if separator:
                found[name.strip()] = _plain(value.strip())
        return found

    @property
    def environment(self):
        return {name: value for name, _, value in (line.partition("=") for line in self.lines("ENV"))}

    def request(self):
        """The request of the test, to a script of the test's own name at the root."""
        environment = self.environment
        fields = [(name.removeprefix("HTTP_").replace("_", "-").title(), value) for name, value in environment.items() if name.startswith("HTTP_")]
        if cookie := self.sections.get("COOKIE", "").strip():
            fields.append(("Cookie", cookie))
        query = self.sections.get("GET", "").strip() or environment.get("QUERY_STRING", "")
        target = environment.get("REQUEST_URI", f"/{self.file.stem}.php")
        if query and "?" not in target:
            target += f"?{query}"
        # PHP's own runner gives the script more than a target may have (RFC 3986 section 2); browsers encode it.
        target = quote(target.encode("latin-1"), safe=TARGET)
        if raw := self.sections.get("POST_RAW", self.sections.get("PUT", "")).strip():
            body, kind = _raw(raw)
            return Request("PUT" if "PUT" in self.sections else "POST", target, [*fields, ("Content-Type", kind)] if kind else fields, body)
        for section, coding, bits in (("POST", None, 0), ("GZIP_POST", "gzip", 31), ("DEFLATE_POST", "deflate", 15)):
            if text := self.sections.get(section, "").strip():
                body = text.encode("latin-1")
                if coding:
                    compressor = zlib.compressobj(9, zlib.DEFLATED, bits)
                    body = compressor.compress(body) + compressor.flush()
                    fields.append(("Content-Encoding", coding))
                return Request("POST", target, [*fields, ("Content-Type", FORM)], body)
        return Request("GET", target, fields, b"")

    def difference(self, response):
        """Returns what is wrong with the answer, or None."""
        output = response.body.decode("latin-1").strip(" \t\n\r\0\x0b").replace("\r\n", "\n")
        if not self.is_expected(output):
            return f"status {response.status} with other output: {' '.join(output.split())[:120] or 'none'}"
        for line in self.lines("EXPECTHEADERS"):
            name, separator, value = (part.strip() for part in line.partition(":"))
            if not separator:
                continue
            if name.lower() == "status":
                found = str(response.status)
                value = value.split()[0]
            else:
                found = response.first(name.lower())
            if found != value:
                return f"`{name}` is {found!r}, and not {value!r}"
        return None

    def is_expected(self, output):
        for kind in ("EXPECTF", "EXPECTREGEX", "EXPECT"):
            text = self.sections.get(kind)
            if text is None and (external := self.sections.get(f"{kind}_EXTERNAL")):
                text = (self.file.parent / external.strip()).read_bytes().decode("latin-1")
            if text is None:
                continue
            text = text.strip(" \t\n\r\0\x0b").replace("\r\n", "\n")
            if kind == "EXPECT":
                return output == text
            pattern = pattern_of(text) if kind == "EXPECTF" else text
            return re.match(f"(?s)^(?:{pattern})\\Z", output) is not None
        raise ValueError(f"{self.name} expects nothing")


def _plain(value):
    """The value that php.ini's notation means."""
    if value.lower() in ("true", "on", "yes"):
        return "1"
    if value.lower() in ("false", "off", "no", "none"):
        return ""
    return re.sub(r'^"(.*)"$', r"\1", value)


def _raw(text):
    """(body, content type): the first line that looks like a content type is one, and no part of the body."""
    kind, lines = "", []
    for line in text.split("\n"):
        found = re.match(r"(?i)Content-Type:(.*)", line)
        if found and not kind:
            kind = found[1].replace("\r", "").strip()
        else:
            lines.append(line)
    return "\n".join(lines).encode("latin-1"), kind


def pattern_of(text):
    """The regular expression of an `EXPECTF`: parts between `%r` are regular expressions themselves."""
    pattern = ""
    for number, part in enumerate(text.split("%r")):
        if number % 2:
            pattern += f"({part})"
        else:
            pattern += re.sub(r"%[esSaAwidxfc0]|(?s:.)", lambda found: PLACEHOLDERS.get(found[0]) or re.escape(found[0]), part)
    return pattern
