"""The commands of the guides, run as they stand on a machine with the packages.

A session is one page: its commands one after the other in a folder of its own, each with the status and the output that the page shows. Ports
are exchanged for free ones, since the machine shares the network with this one. A page with commands is in SESSIONS or in ELSEWHERE.
"""

import json
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "bench"))

from harness.servers import free_port  # noqa: E402

# Pages whose commands another test runs: they need a compiler, another server's files, or are the program's own help. The test, and the code in
# it that takes the commands from the page, which stands there beside the page's name; a comment does not count.
ELSEWHERE = {
    "docs/http/acme.md": ("tests/e2e/tests/acme.rs", "guide_hook(&page"),
    "docs/http/cache.md": ("tests/e2e/tests/cache.rs", "guide::commands("),
    "docs/reference/command-line.md": ("crates/ctl/src/page.rs", "read_to_string(&path)"),
    "docs/operate/dashboard.md": ("tests/e2e/tests/dashboard.rs", 'examples(guide, "console")'),
    "docs/operate/fleet.md": ("tests/e2e/tests/fleet.rs", 'examples(guide, "console")'),
    "docs/http/http2-and-http3.md": ("tests/e2e/tests/http3.rs", 'block("console")'),
    "docs/http/delivery.md": ("tests/e2e/tests/delivery.rs", 'examples(section("Maintenance"), "console")'),
    "docs/start/install.md": ("tests/packages/run.py", "in guide():"),
    "docs/start/moving-from-unit.md": ("crates/daemon/tests/moving.rs", "guide::commands("),
    "docs/operate/kubernetes.md": ("tests/packages/chart.py", "guide_values(page)"),
    "docs/languages/agents.md": ("tests/agents/case.py", 'r"^prompt> (.*)$"'),
    "docs/operate/unit-images.md": ("tests/packages/unit_users.py", "docker run -d -p 8080:8080 (.*)site$"),
    "docs/languages/node.md": ("tests/e2e/tests/node.rs", "guide::commands("),
    "docs/languages/sdk.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/start/first-site.md": ("tests/e2e/tests/sessions.rs", 'examples(FIRST_SITE, "console")'),
    "docs/languages/php.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/python.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/perl.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/ruby.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/java.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/external.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/cgi.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/languages/go.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/http/rewriting.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/http/websocket.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/proxy/fastcgi.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/operate/isolation.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/http/access.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/proxy/streams.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/proxy/upstreams.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/operate/processes.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/operate/troubleshooting.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/operate/backup.md": ("crates/daemon/tests/backup.rs", "guide::commands("),
    "docs/operate/metrics.md": ("tests/e2e/tests/sessions.rs", 'examples(page, "console")'),
    "docs/start/cookbook.md": ("tests/e2e/tests/sessions.rs", "examples(chapter(COOKBOOK, recipe)"),
    "docs/languages/wasm.md": ("tests/e2e/tests/wasm.rs", "guide::commands("),
}

STOP = "! pgrep -f '^tutti: main' >/dev/null || { kill -QUIT $(pgrep -f '^tutti: main'); while pgrep -f '^tutti: ' >/dev/null; do sleep 0.05; done; }"
START = f"{STOP}; rm -rf /var/lib/tutti/*; tuttid"
CERTIFICATES = """openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority -keyout ca.key -out chain.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=site.example -keyout key.pem -out request.pem 2>/dev/null
openssl x509 -req -in request.pem -CA chain.pem -CAkey ca.key -CAcreateserial -out cert.pem 2>/dev/null"""


# A small Apache with a pool of PHP-FPM, whose file the page shows.
APACHE = """mkdir -p /etc/apache2 /etc/php/8.2/fpm/pool.d && cp pool.conf /etc/php/8.2/fpm/pool.d/www.conf && cat >/etc/apache2/apache2.conf <<'END'
ServerRoot /etc/apache2
Listen 8080
<Directory />
    AllowOverride None
    Require all denied
</Directory>
<Directory /srv/shop>
    Require all granted
</Directory>
<VirtualHost *:8080>
    DocumentRoot /srv/shop
    DirectoryIndex index.php
    <FilesMatch "\\.php$">
        SetHandler "proxy:unix:/run/php/shop.sock|fcgi://localhost"
    </FilesMatch>
</VirtualHost>
END
"""


@dataclass
class Session:
    page: str
    # Shell to begin with; `$PAGE_YAML` and `$PAGE_JSON` are the page's first examples.
    before: str = START
    # Texts that are exchanged in every command and file.
    edits: dict = field(default_factory=dict)
    # Shell before the command that begins so.
    between: dict = field(default_factory=dict)
    # The status of the command that begins so, where it is not 0.
    status: dict = field(default_factory=dict)
    # A command that stays in the foreground: it is stopped gracefully when it has said what the page shows, and serves.
    stays: str | None = None


SESSIONS = [
    # The session is in the site's folder, where others than root may enter.
    Session(
        "README.md",
        before=f"{STOP}; touch index.php style.css; mkdir -p /srv/site; cp index.php style.css /srv/site",
        # `ls` prints columns at a terminal only.
        edits={"tutti run .": "tutti run /srv/site", "ls": "ls -C"},
        stays="tutti run",
    ),
    Session(
        "docs/start/configuration.md",
        before=f'{STOP}; rm -rf /var/lib/tutti/* /etc/tutti/*; mkdir /etc/tutti/conf.d; printf %s "$PAGE_YAML" >/etc/tutti/conf.d/site.yaml',
        between={
            "tuttid --config /etc/tutti/conf.d/site.yaml": STOP,
            "tutti config check": "sed -i 's/return: 301/retrun: 301/' /etc/tutti/conf.d/site.yaml",
            "curl --unix-socket": "sed -i 's/retrun/return/' /etc/tutti/conf.d/site.yaml",
            "tuttid --control": STOP,
            "tutti config log": f"{STOP}; rm -rf /var/lib/tutti/*; tuttid --config /etc/tutti/conf.d && sed -i s/8388608/8388609/ /etc/tutti/conf.d/site.yaml && kill -HUP $(pgrep -f '^tutti: main') && "
            "until tutti config log | grep -q SIGHUP; do sleep 0.05; done && tutti config set routes/main/0/action/return 302",
        },
        status={"tutti config check": 1},
    ),
    Session(
        "docs/start/import.md",
        before=f"{START}; mkdir -p /srv/shop; touch /srv/shop/index.php",
        # The page's file of passwords, which the machine does not have: the word `staff` by SHA-512.
        between={
            "tutti import apache": APACHE,
            "tutti config put --file shop.json": "mkdir -p /etc/shop && echo \"anna:$(openssl passwd -6 staff)\" >/etc/shop/staff",
        },
        status={"tutti import nginx": 1},
    ),
    Session(
        "docs/operate/logs.md",
        before=START,
        between={"tuttid --log /var": STOP, "tuttid --no-daemon": STOP, "tuttid --log syslog": STOP},
        stays="tuttid --no-daemon",
    ),
    Session("docs/http/scripting.md"),
    Session("docs/start/sites.md", before=f'{START}; printf %s "$PAGE_JSON" >site.json; {CERTIFICATES}; cat cert.pem key.pem >both.pem; tutti cert put site both.pem'),
    Session(
        "docs/operate/jobs.md",
        before=f"""{START}; mkdir -p /var/www/app; echo '<?php echo "sent";' >/var/www/app/send-mail.php
printf %s "$PAGE_JSON" >page.json; tutti config put --file page.json""",
    ),
    Session("docs/http/tls.md", before=f"{START}; {CERTIFICATES}"),
    Session("docs/operate/upgrade.md"),
]


def commands(text):
    """Each command of a page's console and shell blocks, with the lines that it prints there."""
    found = []
    for language, block in re.findall(r"^```(console|sh|bash)\n(.*?)^```", text, re.S | re.M):
        continues = False
        for line in block.splitlines():
            begins = language != "console" or line.startswith(("$ ", "# "))
            if continues:
                found[-1][0] += f"\n{line}"
            elif begins:
                found.append([line if language != "console" else line[2:], []])
            elif found:
                found[-1][1].append(line)
            continues = line.endswith("\\") and (begins or continues)
    return found


def example(text, language):
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.S | re.M)
    return found.group(1) if found else ""


def without_comments(code):
    """The code of a test in Rust or Python without lines that are comments."""
    return "\n".join(line for line in code.splitlines() if not line.strip().startswith(("//", "#", '"""')))


def alike(line):
    """A line of output without what differs from run to run: numbers and how many there are, times, widths."""
    return re.sub(r"\b0( 0\b)+", "0", re.sub(r"\s+", " ", re.sub(r"\d+", "0", line))).strip()


def same_json(shown, said):
    """True for equal JSON, and for two jobs: their numbers differ."""
    try:
        shown, said = json.loads(shown), json.loads(said)
    except ValueError:
        return False
    return shown == said or isinstance(said, dict) and shown.keys() == said.keys() == {"id"}


def differs(shown, said):
    """The first line that the page shows and the command does not say, in the page's order; None: there is none."""
    rest = iter(alike(line) for line in said.splitlines())
    for line in shown:
        if line.strip() in ("…", "...", ""):
            continue
        if not any(alike(line) == other for other in rest):
            return line
    return None


def first_of(table, command):
    return next((value for begin, value in table.items() if command.startswith(begin)), None)


def until_it_serves(line, shown):
    """A line of shell that runs a server in the foreground, and stops it gracefully when it has said the last line that the page shows; where none
    is shown, when its control socket answers."""
    serves = f"grep -qF {shlex.quote(shown[-1].strip())} said" if shown else "tutti status >/dev/null 2>&1"
    # With job control: the shell would start it with SIGQUIT ignored.
    return f"set -m; {line} >said 2>&1 & until {serves} || ! kill -0 $! 2>/dev/null; do sleep 0.05; done; kill -QUIT $!; wait $!; status=$?; cat said; exit $status"


def run_session(machine, session):
    """Runs a page; how many commands it has."""
    text = (ROOT / session.page).read_text(encoding="utf-8")
    edits = dict(session.edits)
    # Every port of the page that a server of ours would listen on.
    for port in sorted(set(re.findall(r"[*1]:(\d{2,5})\b|listen (\d{2,5});", text))):
        port = port[0] or port[1]
        edits |= {f"{before}{port}": f"{after}{free_port()}" for before, after in ((":", ":"), ("listen ", "listen 127.0.0.1:"))}
    for before, after in list(edits.items()):
        if before.startswith("listen "):
            edits[before] = f"listen 127.0.0.1:{edits[':' + before.split()[1]][1:]}"

    def edited(what):
        for before in sorted(edits, key=len, reverse=True):
            what = what.replace(before, edits[before])
        return what

    folder = "/root/guide/" + Path(session.page).stem
    variables = f"PAGE_YAML={shlex.quote(edited(example(text, 'yaml')))}; PAGE_JSON={shlex.quote(edited(example(text, 'json')))}"
    machine.run(f"rm -rf {folder} && mkdir -p {folder}")
    prepare = f"cd {folder}; {variables}; export PORT={free_port()} SITE=/srv/site EDITOR=true"

    def run(line, check=True):
        # A command that hangs is a fault, too.
        return machine.run(f"timeout --kill-after=5 60 bash -c {shlex.quote(f'{prepare}; {line}')}", check=check)

    run(session.before)
    found = commands(text)
    assert found, f"{session.page} has no commands"
    for command, shown in found:
        extra = first_of(session.between, command)
        if extra:
            run(extra)
        shown_file = re.fullmatch(r"cat (\S+)", command)
        if shown_file and shown:
            machine.write(f"{folder}/{shown_file.group(1)}", edited("\n".join(shown)) + "\n")
            continue
        wanted = first_of(session.status, command) or 0
        line = edited(command)
        shown = [edited(one) for one in shown]
        if session.stays and command.startswith(session.stays):
            line = until_it_serves(line, shown)
        done = run(line, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == wanted, f"{session.page}: `{line}` ends with {done.returncode}, not {wanted}:\n{said[-2000:]}"
        missing = None if same_json("\n".join(shown), done.stdout) else differs(shown, said)
        assert missing is None, f"{session.page}: `{line}` does not say `{missing}`, but:\n{said[-2000:]}"
    machine.run(STOP)
    return len(found)


def run(machine):
    """All sessions; a page with commands that no test runs is a fault. What was served before is served again then."""
    pages = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
    ours = {session.page for session in SESSIONS}
    for page in pages:
        if commands((ROOT / page).read_text(encoding="utf-8")) and page not in ours:
            assert page in ELSEWHERE, f"no test runs the commands of {page}: give it a session in tests/packages/guides.py"
            test, takes = ELSEWHERE[page]
            code = without_comments((ROOT / test).read_text(encoding="utf-8"))
            assert re.search(rf'"[^"\n]*\b{re.escape(Path(page).name)}"', code), f"{test} does not read {page}"
            assert takes in code, f"{test} does not take the commands from {page}: there is no `{takes}`"
    machine.run("apt-get install -y -qq openssl && systemctl stop tutti && cp -a /var/lib/tutti /root/state && cp -a /etc/tutti /root/configuration")
    count = sum(run_session(machine, session) for session in SESSIONS)
    machine.run("rm -rf /var/lib/tutti/* /etc/tutti/* /root/guide /var/log/tutti/* && cp -a /root/state/. /var/lib/tutti/ && cp -a /root/configuration/. /etc/tutti/")
    machine.run("rm -rf /root/state /root/configuration /run/tutti.sock /var/log/tutti.log && systemctl start tutti")
    return f"{count} commands of {len(SESSIONS)} guides do what the guides say"
