"""TLS 1.2 and 1.3 conversations with wrong, odd and hostile messages: tlsfuzzer's scripts, which expect the exact alert of each"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from base import Case

COMMIT = "14555fe211456c46deccc4b2d94751dbd894aece"
VERSION = f"tlsfuzzer {COMMIT[:12]} with tlslite-ng 0.9.0b2"
PACKAGES = ("tlslite-ng==0.9.0b2",)
SECONDS = 300

# As `-C TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, for the scripts that lack the option: their ECDHE suites with CBC are sent as ones with GCM.
# What scripts choose at random, conversations and bytes, is the same each time.
WRAPPER = """
import os, random, runpy, sys
from tlslite.constants import CipherSuite
random.seed(1)
os.urandom = random.randbytes
CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA = CipherSuite.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
CipherSuite.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA = CipherSuite.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

OLD_KEYS = "it needs RSA or finite-field DH key exchange, which rustls does not have"
CBC = "it needs a cipher suite with CBC or CCM, which rustls does not have"
OLD = "it is about SSL 2 and 3, TLS 1.0 or 1.1, which rustls does not have"
PSK = "it needs a key that was agreed on outside TLS, which Tutti has no option for"
NO_KEY = "rustls does not have keys and signatures of this kind"
PHA = "it needs authentication after the handshake, which rustls does not have"
TIMING = "it measures times over hours, to find a side channel"
RECORD_LIMIT = "it needs the extension record_size_limit, which rustls does not have"

# Scripts that do not apply, each with its reason.
LEFT_OUT = {
    **dict.fromkeys((
        "SSLv3-padding", "TLSv1_2-rejected-without-TLSv1_2", "dhe-key-share-random", "ecdhe-padded-shared-secret", "export-ciphers-rejected",
        "serverhello-random", "sslv2-force-cipher-3des", "sslv2-force-cipher-non3des", "ecdhe-rsa-key-share-random",
    ), OLD),
    **dict.fromkeys((
        "bleichenbacher-workaround", "clienthello-md5", "dhe-no-shared-secret-padding", "dhe-rsa-key-exchange", "dhe-rsa-key-exchange-signatures",
        "dhe-rsa-key-exchange-with-bad-messages", "dsa-sig-flexibility", "dsa-in-certificate-verify", "empty-extensions", "extensions",
        "ffdhe-expected-params", "ffdhe-negotiation", "fuzzed-finished", "invalid-cipher-suites", "invalid-client-hello",
        "invalid-rsa-key-exchange-messages", "invalid-session-id", "invalid-version", "message-duplication", "openssl-3712",
        "truncating-of-finished", "truncating-of-kRSA-client-key-exchange", "tls13-ffdhe-groups", "tls13-ffdhe-sanity", "unsupported-curve-fallback",
    ), OLD_KEYS),
    **dict.fromkeys((
        "aesccm", "atypical-padding", "cve-2016-2107", "encrypt-then-mac", "encrypt-then-mac-renegotiation", "fuzzed-MAC", "fuzzed-padding",
        "fuzzed-plaintext", "lengths", "ecdhe-rsa-key-exchange", "ecdsa-sig-flexibility",
    ), CBC),
    **dict.fromkeys((
        "bleichenbacher-timing-marvin", "bleichenbacher-timing-pregenerate", "lucky13", "tls13-minerva", "tls13-dhe-shared-secret-padding",
    ), TIMING),
    **dict.fromkeys((
        "tls13-ecdsa-brainpool-in-certificate-verify", "tls13-ecdhe-brainpool-curves", "tls13-rsapss-signatures",
    ), NO_KEY),
    **dict.fromkeys(("tls13-psk_ke", "tls13-psk_dhe_ke"), PSK),
    "heartbeat": "it is for servers with heartbeats, which rustls does not have (test-no-heartbeat.py is for others)",
    "ocsp-stapling": "it needs a stapled response, which Tutti has no option for",
    "tls13-post-handshake-auth": PHA,
    "record-size-limit": RECORD_LIMIT,
    "tls13-lengths": "it has 16,384 conversations, for longer than all others together",
    "tls13-non-support": "it is for servers without TLS 1.3",
    "renegotiation-disabled-client-cert": "it is about a server that asks for the certificate in a second handshake, and rustls never renegotiates",
    "tls13-mldsa-in-certificate-verify": "it needs dilithium-py, which is no pinned dependency of tlsfuzzer",
    "tls13-mlkem": "it needs kyber-py, which is no pinned dependency of tlsfuzzer",
    "tls13-keyupdate-from-server": "it needs a server that changes its key during a response of 16 MiB",
}

# Scripts whose options are others than those of the rest, and what they need.
OPTIONS = {
    # With `-C` it sends no suites where it wants AES-256.
    "aes-gcm-nonces": ["-d"],
    "chacha20": ["--extra-exts"],
    "cve-2016-7054": ["-C", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"],
    # All conversations, of which it would choose some at random. It takes these extensions for unknown, and sends them empty or with random
    # bytes; rustls reads ec_point_formats, extended_master_secret, compress_certificate, ticket_request and encrypted_client_hello's two.
    "tls13-large-number-of-extensions": ["-n", "0", *(word for number in (11, 23, 27, 58, 64768, 65037) for word in ("--exc", str(number)))],
}

# In the order of rustls.
SIGNATURES = (
    "ecdsa_secp384r1_sha384", "ecdsa_secp256r1_sha256", "ecdsa_secp521r1_sha512", "ed25519", "rsa_pss_rsae_sha512", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha256",
    "rsa_pkcs1_sha512", "rsa_pkcs1_sha384", "rsa_pkcs1_sha256",
)
TLS13_SIGNATURES = ("mldsa44", "mldsa65", "mldsa87")
# Scripts that need a client certificate, and which of tlsfuzzer's it is; they use a listener that asks for one, and takes any whose key the client has.
WITH_CLIENT = {
    **dict.fromkeys((
        "certificate-malformed", "certificate-request", "certificate-verify", "certificate-verify-malformed", "certificate-verify-malformed-sig",
        "extended-master-secret-extension-with-client-cert", "rsa-pss-sigs-on-certificate-verify", "rsa-sigs-on-certificate-verify", "tls13-certificate-request", "tls13-certificate-verify", "tls13-client-certificate-compression",
    ), "clientX509"),
    **dict.fromkeys(("ecdsa-in-certificate-verify", "tls13-ecdsa-in-certificate-verify"), "serverEC"),
    **dict.fromkeys(("eddsa-in-certificate-verify", "tls13-eddsa-in-certificate-verify"), "serverEd25519"),
}
# Scripts that need a listener with other certificates of tlsfuzzer.
COMMON_KEY = ("serverX509",)
WITH_KEYS = {
    "tls13-ecdsa-support": ("serverEC", "serverP384EC", "serverP521EC"),
    "tls13-eddsa": ("serverEd25519",),
}

# Conversations that do not apply, in all scripts.
NOT_OFFERED = (
    (r"x448|secp521r1|brainpool|ffdhe|ed448", "group-not-offered", "rustls does not have this group or algorithm"),
    (r"CCM|_CBC_|3DES", "suite-not-offered", "rustls does not have this cipher suite"),
    (r"^Protocol \(3, [012]\)|SSLv2|SSLv3|TLSv?1\.[01]\b|SSL3", "version-not-offered", OLD),
    (r"renegotiat", "no-renegotiation", "rustls never renegotiates"),
    (r"w/DHE|\bDHE\b", "dhe-not-offered", OLD_KEYS),
)


def not_offered(conversation):
    """(name, outcome, detail) for a conversation that needs what rustls does not have, or None."""
    for pattern, name, reason in NOT_OFFERED:
        if re.search(pattern, conversation):
            return name, "skip", reason
    return None


def options(text, script):
    """Makes a script use what rustls has, and what the listener expects."""
    if script in OPTIONS:
        return OPTIONS[script]
    words = []
    if name := WITH_CLIENT.get(script):
        words += ["-k", f"tests/{name}Key.pem", "-c", f"tests/{name}Cert.pem"]
        if re.search(r"^\s*-s sigalgs", text, re.MULTILINE):
            words += ["-s", " ".join(SIGNATURES + (TLS13_SIGNATURES if script.startswith("tls13-") else ()))]
        if re.search(r"^\s*-E ext_spec", text, re.MULTILINE):
            # certificate_authorities, which the listener names.
            words += ["-E", "47:CR key_share:SH supported_versions:SH"]
    return words + key_exchange(text, script)


def key_exchange(text, script):
    if re.search(r"^\s*-C ", text, re.MULTILINE) and not script.startswith("tls13-"):
        return ["-C", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
    return ["-d"] if re.search(r"^\s*-d ", text, re.MULTILINE) else []


class Scripts:
    """`listener(keys, client_ca)` returns the port of a listener with these keys, which asks for a client certificate if there is an authority for one."""

    def __init__(self, folder, packages, listener):
        self.folder = folder
        self.ports = {keys: listener(keys, None) for keys in {COMMON_KEY, *WITH_KEYS.values()}}
        self.port_with_client = listener(COMMON_KEY, "clientX509")
        self.environment = {**os.environ, "PYTHONPATH": f"{packages}:{folder}", "PYTHONHASHSEED": "0"}

    def call(self, script, *arguments):
        command = [sys.executable, "-c", WRAPPER, f"scripts/test-{script}.py", *arguments]
        try:
            done = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return ""
        return done.stdout + done.stderr

    def cases(self, script):
        """The cases of one script: the script's own, and one for each group of its conversations that does not apply."""
        name = f"test-{script}.py"
        if script in LEFT_OUT:
            return [Case(name, "skip", LEFT_OUT[script])]
        port = self.port_with_client if script in WITH_CLIENT else self.ports[WITH_KEYS.get(script, COMMON_KEY)]
        text = self.call(script, "-h", "127.0.0.1", "-p", str(port), *options(self.call(script, "--help"), script))
        if not re.search(r"^TOTAL: \d+$", text, re.MULTILINE):
            last = (text.strip().splitlines() or [f"no end within {SECONDS} s"])[-1]
            return [Case(name, "fail", f"the script has no result: {last}")]
        failed = re.search(r"^FAILED:\n((?:\t.*\n?)+)", text, re.MULTILINE)
        conversations = [line.strip().strip("'\"") for line in failed[1].splitlines()] if failed else []
        groups, unexpected = {}, []
        for conversation in dict.fromkeys(conversations):
            if group := not_offered(conversation):
                groups[group[0]] = Case(f"{name}:{group[0]}", *group[1:])
            else:
                unexpected.append(conversation)
        return [Case(name, "fail" if unexpected else "pass", "; ".join(unexpected[:8])), *groups.values()]


def run(context):
    folder = context.git("github.com/tlsfuzzer/tlsfuzzer", COMMIT)

    def listener(keys, client_ca):
        tls = {"certificate": [{"file": str(folder / f"tests/{key}Cert.pem"), "key": str(folder / f"tests/{key}Key.pem")} for key in keys]}
        tls["session"] = {"cache_size": 1000, "tickets": True}
        if client_ca:
            # The scripts' certificates are their own authorities; what is tested is the proof that the client has the key.
            tls |= {"client_ca": str(folder / f"tests/{client_ca}Cert.pem"), "client_verify": "optional", "client_failure": "report"}
        return context.server(lambda port: {
            "listeners": {f"127.0.0.1:{port}": {"pass": "routes", "tls": tls}},
            "routes": [{"action": {"return": 200, "body": "hello\n"}}],
        }, f"server-{'-'.join(keys)}-{client_ca}").port

    scripts = Scripts(folder, context.pip(*PACKAGES), listener)
    names = sorted(file.stem.removeprefix("test-") for file in (folder / "scripts").glob("test-*.py"))
    with ThreadPoolExecutor(3) as pool:
        for cases in pool.map(scripts.cases, names):
            yield from cases
