"""Python's httpx over HTTP/2: client.py URL."""

import hashlib
import os
import sys

import httpx

with httpx.Client(base_url=sys.argv[1], http1=False, http2=True, verify=False, timeout=60) as client:
    for _ in range(50):
        answer = client.get("/small.txt")
        assert (answer.status_code, answer.text, answer.http_version) == (200, "small", "HTTP/2"), answer
    assert len(client.get("/large.bin").content) == 3_000_000
    sent = os.urandom(1_000_000)
    digest = hashlib.sha1(sent).hexdigest()
    assert client.post("/digest.php", content=sent).text == f"HTTP/2.0 {len(sent)} {digest}"
    pieces = (sent[start : start + 7_000] for start in range(0, len(sent), 7_000))
    assert client.post("/digest.php", content=pieces).text == f"HTTP/2.0 {len(sent)} {digest}"
    cookies = client.get("/cookie.php", headers=[("cookie", "a=1"), ("cookie", "b=2")]).text
    assert cookies == "a=1; b=2", cookies
    assert client.head("/large.bin").headers["content-length"] == "3000000"
print("ok")
