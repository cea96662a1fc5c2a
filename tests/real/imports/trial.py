"""`tutti import --try` with the requests of a site, held against what the comparison of the test itself has found."""

import json
import subprocess

from imports.replay import Request

# Parts of answers that `--try` and the comparison both look at.
ASPECTS = {"status": "status", "location": "location", "content-type": "type", "body": "body"}


def is_plain(request):
    """A request that a list of addresses can have: a GET without fields, for a name."""
    return request.method == "GET" and not request.fields and ":" not in request.host and all(" " < letter < "\x7f" for letter in request.target)


def url(request, port):
    return f"http://{request.host.lower()}:{port}{request.target}"


def tried(dist, site, files, requests, folder, is_root):
    """Returns the result of `--try` for the plain requests, and their number."""
    listed = [request for request in requests if is_plain(request)]
    (folder / "requests.list").write_text("".join(url(request, site.old.port) + "\n" for request in listed))
    user = ["--user", "nobody"] if is_root else []
    done = subprocess.run(
        [f"{dist}/bin/tutti", "import", site.kind, *map(str, files), *site.more, "--try", "--format", "json", "--most", "5000",
         "--requests", str(folder / "requests.list"), "--modulesdir", f"{dist}/modules", *user],
        capture_output=True, text=True, check=False)
    (folder / "trial.log").write_text(done.stdout + done.stderr)
    if done.returncode not in (0, 1):
        raise AssertionError(f"--try ended with {done.returncode}:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout)
    if result["differing"] != len(result["requests"]) or (done.returncode == 1) != (result["differing"] > 0):
        raise AssertionError(f"--try says {result['differing']} differ, lists {len(result['requests'])} and ends with {done.returncode}")
    return result, len(set(url(request, site.old.port) for request in listed))


def surprises(result, comparison, port):
    """The differences that `--try` has found and the comparison has not, not even for the name with its port, as `--try` asks."""
    differed = {url(request, port) for request in comparison.differed}
    found = []
    for request in result["requests"]:
        told = [one for one in request["differences"] if one["what"] in ASPECTS]
        if not told or request["url"] in differed:
            continue
        authority, slash, rest = request["url"].removeprefix("http://").partition("/")
        known = len(comparison.differed)
        comparison.compare(Request("GET", slash + rest, host=authority))
        if len(comparison.differed) == known:
            found.append(f"--try: GET {request['url']}: " + "; ".join(f"{one['what']} {one['old']!r} → {one['new']!r}" for one in told))
    return found
