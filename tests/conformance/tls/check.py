#!/usr/bin/env python3
"""Runs testssl.sh against a server and fails on every finding above informational that is not explained below.

check.py [--long] HOST:PORT CA-FILE

The short version looks at protocols, ciphers, forward secrecy, preferences and defaults; --long at vulnerabilities too.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Where session tickets are looked at.
DEFAULTS = ["--server-defaults"]
SHORT = ["--protocols", "--std", "--fs", "--server-preference", *DEFAULTS]
LONG = [*SHORT, "--vulnerable"]
TICKETS = "sessionresumption"
FINE = {"OK", "INFO", "DEBUG"}

# Findings that are not about the server, each with its reason.
EXPLAINED = {
    "cert_caIssuers": "the certificate of the test has no address of its issuer",
    "cert_chain_of_trust": "the test's own authority is only in the file that is given",
    "cert_trust": "the test connects by address",
    "cert_ocspURL": "the test's authority answers no questions",
    "cert_crlDistributionPoints": "the test's authority has no list",
    "cert_revocation": "neither list nor answers: as above",
    "cert_expirationStatus": "the test's certificate is valid for days",
    "cert_validityPeriod": "the same",
    "cert_notAfter": "the same",
    "cert_extlifeSpan": "the same",
    "OCSP_stapling": "there is no answer to staple",
    "DNS_CAArecord": "the test has no domain",
    "certificate_transparency": "the test's authority is in no log",
    "intermediate_cert_expiration": "the test's intermediate is valid for days",
    "intermediate_cert_badOCSP": "the test's authority answers no questions",
    "TLS_session_ticket": "the lifetime of tickets is for the configuration to say",
    "cipherlist_OBSOLETED": "testssl counts nothing but TLS 1.3 as current",
    "scanTime": "how long the test took",
    "engine_problem": "about the openssl that testssl.sh uses",
    "old_fart": "the same",
}


def scan(place, authority, what):
    """Returns what is fine, what is not, and all it said."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = ["testssl", "--quiet", "--warnings", "off", "--color", "0", "--ip", "one", "--nodns", "min", "--jsonfile", str(report),
                   "--add-ca", authority, "--openssl", "/usr/bin/openssl", *what, place]
        run = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if not report.exists():
            sys.exit(f"testssl.sh made no report: {run.stdout[-2000:]}{run.stderr[-2000:]}")
        findings = json.loads(report.read_text())
    looked_at = [finding for finding in findings if finding["severity"] in FINE]
    bad = [finding for finding in findings
           if finding["severity"] not in FINE and finding["id"].split(" ")[0] not in EXPLAINED]
    return looked_at, bad, run.stdout


def main():
    arguments = sys.argv[1:]
    is_long = "--long" in arguments
    place, authority = [argument for argument in arguments if argument != "--long"]
    # A warning says that it could not look: on a busy machine its client closes before a ticket has come. Then it looks again, at that part
    # alone.
    looked_at, bad, output = scan(place, authority, LONG if is_long else SHORT)
    for _ in range(10):
        warned = {finding["id"] for finding in bad if finding["severity"] == "WARN" and finding["id"].startswith(TICKETS)}
        if not warned:
            break
        again, still_bad, _ = scan(place, authority, DEFAULTS)
        bad = [finding for finding in bad if finding["id"] not in warned] + [finding for finding in still_bad if finding["id"] in warned]
        looked_at += [finding for finding in again if finding["id"] in warned]
    for finding in bad:
        print(f"{finding['severity']}: {finding['id']}: {finding['finding']}")
    # Fewer would mean that it gave up somewhere.
    if len(looked_at) < 20:
        sys.exit(f"only {len(looked_at)} findings: {output[-2000:]}")
    print(f"{len(looked_at)} findings are fine, {len(bad)} are not")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
