#!/usr/bin/env python3
"""Scans a server with sslyze, everything it knows, and fails on what it holds against it that is not explained below.

scan.py HOST:PORT CA-FILE, run by a Python that has sslyze (requirements.txt).
"""

import sys

from sslyze import (ScanCommand, ScanCommandAttemptStatusEnum, Scanner, ServerNetworkConfiguration, ServerNetworkLocation,
                    ServerScanRequest, ServerScanStatusEnum, TlsResumptionSupportEnum)
from sslyze.mozilla_tls_profile.tls_config_checker import (MozillaTlsConfiguration, ServerNotCompliantWithTlsConfiguration,
                                                           TlsConfigurationEnum, check_server_against_tls_configuration)

# Issues that are not about the server, each with its reason.
EXPLAINED = {
    "certificate_path_validation": "the test's own authority is in no trust store",
    "certificate_signatures": "the test's own authority signs with RSA; Mozilla wishes for one kind of key in a chain",
}


def check(result):
    """Returns what is wrong, in words."""
    for command in ScanCommand:
        attempt = getattr(result.scan_result, command.value)
        if attempt.status is not ScanCommandAttemptStatusEnum.COMPLETED:
            yield f"{command.value} did not work: {attempt.error_reason} {attempt.error_trace}"
            return
    profile = MozillaTlsConfiguration.get(TlsConfigurationEnum.MOZILLA_INTERMEDIATE)
    try:
        check_server_against_tls_configuration(result, profile)
    except ServerNotCompliantWithTlsConfiguration as error:
        for issue, text in error.issues.items():
            if issue not in EXPLAINED:
                yield f"{issue}: {text}"
    scan = result.scan_result
    if scan.tls_1_3_early_data.result.supports_early_data:
        yield "early data, which can be sent again by others"
    if scan.session_renegotiation.result.is_vulnerable_to_client_renegotiation_dos:
        yield "renegotiation at the client's wish"
    if not scan.tls_fallback_scsv.result.supports_fallback_scsv:
        yield "no defence against being made to speak an older version (RFC 7507)"
    # Its verdict on tickets is ignored: a session that is taken up gets a new ticket, which sslyze takes for a new session.
    kept = scan.session_resumption.result.session_id_resumption_result
    if kept is not TlsResumptionSupportEnum.FULLY_SUPPORTED:
        yield f"sessions that are kept: {kept}"
    for version in ("tls_1_2", "tls_1_3"):
        if not getattr(scan, f"{version}_cipher_suites").result.accepted_cipher_suites:
            yield f"{version} is not spoken"


def main():
    host, port = sys.argv[1].split(":")
    location = ServerNetworkLocation(hostname="example.com", ip_address=host, port=int(port))
    patient = ServerNetworkConfiguration(tls_server_name_indication="example.com", network_timeout=60, network_max_retries=3)
    # A few connections at once: the machine may have other work.
    scanner = Scanner(per_server_concurrent_connections_limit=3, concurrent_server_scans_limit=1)
    scanner.queue_scans([ServerScanRequest(server_location=location, network_configuration=patient, scan_commands=set(ScanCommand))])
    [result] = scanner.get_results()
    if result.scan_status is not ServerScanStatusEnum.COMPLETED:
        sys.exit(f"no scan: {result.scan_status} {result.connectivity_error_trace}")
    issues = list(check(result))
    for issue in issues:
        print(issue)
    print(f"{len(ScanCommand)} scans, {len(issues)} findings")
    sys.exit(1 if issues else 0)


if __name__ == "__main__":
    main()
