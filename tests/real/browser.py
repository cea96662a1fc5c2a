"""A person's browser, as far as a test needs one: cookies, redirects, forms, uploads, one kept connection."""

import http.client
import secrets
import urllib.parse
from html.parser import HTMLParser


class Unexpected(AssertionError):
    """An answer that a person would have complained about."""


class Form:
    """A form of a page with the values it came with."""

    def __init__(self, attributes):
        self.attributes = attributes
        self.values = []
        self.buttons = []

    def __repr__(self):
        return f"form {self.attributes} {[name for name, _ in self.values]}"


class _Forms(HTMLParser):
    """Collects forms; knows inputs, text areas, selects and buttons."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.forms, self.textarea, self.select = [], None, None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        name, value = given.get("name"), given.get("value")
        if tag == "form":
            self.forms.append(Form(given))
        if not self.forms:
            return
        form = self.forms[-1]
        if tag == "input" and name:
            kind = (given.get("type") or "text").lower()
            if kind in ("submit", "image", "button"):
                form.buttons.append((name, value or ""))
            elif kind == "file" or (kind in ("checkbox", "radio") and "checked" not in given):
                pass
            else:
                form.values.append((name, value if value is not None else ("on" if kind == "checkbox" else "")))
        elif tag == "button" and name:
            form.buttons.append((name, value or ""))
        elif tag == "textarea" and name:
            self.textarea = [name, ""]
        elif tag == "select" and name:
            self.select = [name, None, None]
        elif tag == "option" and self.select:
            if self.select[1] is None:
                self.select[1] = value or ""
            if "selected" in given:
                self.select[2] = value or ""

    def handle_data(self, data):
        if self.textarea:
            self.textarea[1] += data

    def handle_endtag(self, tag):
        if tag == "textarea" and self.textarea:
            name, text = self.textarea
            self.forms[-1].values.append((name, text.removeprefix("\n")))
            self.textarea = None
        elif tag == "select" and self.select:
            name, first, selected = self.select
            self.forms[-1].values.append((name, selected if selected is not None else first or ""))
            self.select = None


class Page:
    """An answer, with what a test asks of it."""

    def __init__(self, url, status, headers, body):
        self.url, self.status, self.headers, self.body = url, status, headers, body

    @property
    def text(self):
        return self.body.decode("utf-8", errors="replace")

    def header(self, name):
        return self.headers.get(name)

    def expect(self, *wanted):
        """Every text must be there; shows the page's beginning when one is not."""
        for text in wanted:
            if text not in self.text:
                raise Unexpected(f"{self.url} ({self.status}): `{text}` is not in the page:\n{self._plain()}")
        return self

    def expect_not(self, *unwanted):
        for text in unwanted:
            if text in self.text:
                raise Unexpected(f"{self.url} ({self.status}): `{text}` is in the page")
        return self

    def _plain(self):
        class Text(HTMLParser):
            def __init__(self):
                super().__init__()
                self.parts, self.hidden = [], 0

            def handle_starttag(self, tag, _):
                self.hidden += tag in ("script", "style")

            def handle_endtag(self, tag):
                self.hidden -= tag in ("script", "style")

            def handle_data(self, data):
                if not self.hidden and data.strip():
                    self.parts.append(data.strip())

        reader = Text()
        reader.feed(self.text)
        return " | ".join(reader.parts)[:3000]

    def forms(self):
        parser = _Forms()
        parser.feed(self.text)
        return parser.forms

    def form(self, **attributes):
        """The first form with these attributes (`id_="x"` for `id`), or with a field of the name `field`."""
        field = attributes.pop("field", None)
        wanted = {key.rstrip("_"): value for key, value in attributes.items()}
        for form in self.forms():
            names = {name for name, _ in form.values} | {name for name, _ in form.buttons}
            if all(form.attributes.get(key) == value for key, value in wanted.items()) and (field is None or field in names):
                return form
        raise Unexpected(f"{self.url}: no form {wanted or field} among {self.forms()}:\n{self._plain()}")


class Browser:
    """One person: cookies are kept, redirects followed, every status checked."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.cookies = {}
        self.connection = None
        self.requests = 0

    def get(self, url, status=200, headers=None, follow=True):
        return self.request("GET", url, None, headers, status, follow)

    def post(self, url, fields, files=None, status=200, headers=None, follow=True):
        """`files` is {name: (file name, content type, bytes)}; with it the body is multipart."""
        headers = dict(headers or {})
        if files:
            headers["Content-Type"], body = multipart(fields, files)
        elif isinstance(fields, bytes):
            body = fields
        else:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urllib.parse.urlencode(fields).encode()
        return self.request("POST", url, body, headers, status, follow)

    def submit(self, page, form, changes=None, button=None, files=None, status=200):
        """Sends a form of `page` with some fields changed, as if `button` had been pressed."""
        changes = dict(changes or {})
        fields = [(name, changes.pop(name, value)) for name, value in form.values]
        fields += changes.items()
        if button:
            fields += [(name, value) for name, value in form.buttons if name == button][:1]
        action = urllib.parse.urljoin(page.url, form.attributes.get("action") or page.url)
        if (form.attributes.get("method") or "get").lower() == "get":
            return self.get(action.partition("?")[0] + "?" + urllib.parse.urlencode(fields), status)
        is_multipart = form.attributes.get("enctype") == "multipart/form-data"
        return self.post(action, fields, files or ({} if not is_multipart else {"": ("", "application/octet-stream", b"")}), status)

    def request(self, method, url, body=None, headers=None, status=200, follow=True):
        for _ in range(10):
            page = self._once(method, url, body, headers)
            location = page.header("Location")
            if not follow or page.status not in (301, 302, 303, 307, 308) or not location:
                break
            url = urllib.parse.urljoin(page.url, location)
            if page.status in (301, 302, 303):
                method, body, headers = "GET", None, None
        if status is not None and page.status != status:
            raise Unexpected(f"{method} {page.url}: {page.status} instead of {status}:\n{page._plain()}")
        return page

    def _once(self, method, url, body, headers):
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(f"http://{self.host}:{self.port}/", url))
        if (parts.hostname, parts.port) != (self.host, self.port):
            raise Unexpected(f"{url} leads to another server")
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        sent = {"Host": f"{self.host}:{self.port}", "User-Agent": "Mozilla/5.0 (tutti tests)", "Accept": "*/*", **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self.requests += 1
        try:
            response = self._send(method, target, body, sent)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # RFC 9112 §9.5: a kept connection may be closed while idle; only then is asking again right.
            if self.connection is None:
                raise
            self.connection = None
            response = self._send(method, target, body, sent)
        data = response.read()
        if response.will_close:
            self.connection = None
        self._remember(response.headers.get_all("Set-Cookie") or [])
        return Page(urllib.parse.urlunsplit(parts._replace(fragment="")), response.status, response.headers, data)

    def _send(self, method, target, body, headers):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        self.connection.request(method, target, body, headers)
        return self.connection.getresponse()

    def _remember(self, cookies):
        for cookie in cookies:
            pair, *attributes = cookie.split(";")
            name, _, value = pair.strip().partition("=")
            ended = any(part.strip().lower() == "max-age=0" for part in attributes) or value in ("", "deleted", "+")
            if ended:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value


def multipart(fields, files):
    """(content type, body) of a form upload."""
    boundary = secrets.token_hex(16)
    parts = []
    for name, value in fields.items() if isinstance(fields, dict) else fields:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    for name, (filename, kind, data) in files.items():
        if not name:
            continue
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: {kind}\r\n\r\n'
        parts.append(head.encode() + data + b"\r\n")
    parts.append(f"--{boundary}--\r\n".encode())
    return f"multipart/form-data; boundary={boundary}", b"".join(parts)


def png(width=240, height=160):
    """A picture with some detail, so that it survives being resized and is larger than a head."""
    import struct
    import zlib

    rows = b"".join(b"\0" + bytes(value for x in range(width) for value in ((x * 255) // width, (y * 255) // height, (x * y) % 251))
                    for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b""))
