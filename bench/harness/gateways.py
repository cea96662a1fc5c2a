"""P28: FastCGI to php-fpm."""

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .servers import FloorFpm, NginxFpm, NginxFpmKept, NginxFpmSpare, TuttiFpm, TuttiFpmBound


def p28(context):
    load = Wrk(1, 64, context.seconds)
    few = Wrk(1, 4, context.seconds)
    path = "/hello.php"

    def verdict(table):
        checks = [ratio(table, "rps", one.name, path, at_least=1.15, peer=peer.label, own=TuttiFpm.label)
                  for peer in (NginxFpm, NginxFpmKept) for one in (load, few)]
        checks.append(ratio(table, "rps", load.name, path, at_least=1.15, peer=NginxFpmSpare.label, own=TuttiFpm.label))
        return [*checks, no_errors(table, TuttiFpm.label)]

    return Case("P28", "FastCGI to php-fpm, 4 children", "≥ 1.15 × nginx with keep-alive FastCGI",
                [(server, 4, None) for server in (FloorFpm, NginxFpm, NginxFpmKept, NginxFpmSpare, TuttiFpm, TuttiFpmBound)],
                [(load, path), (few, path)], verdict,
                note="With as many kept connections as children nginx starves all other clients: see its slowest responses.")


def cases(context):
    return [p28(context)]
