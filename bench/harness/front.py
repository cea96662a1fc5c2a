"""Measures what each request passes on its way: compression (P29), routing through many patterns (P30), the access log (P32)."""

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .measure import Check
from .servers import Nginx, NginxFpmKept, Tutti

PATTERNS = 1_000


class Compressing:
    """A page of 20 KB, as a file and by PHP; levels are nginx's own names for those of zlib and brotli."""

    level = 6
    brotli_level = 4
    page = "/page-20k.html"
    php_page = "/page.php"


class NginxCompressing(Compressing, NginxFpmKept):
    label = "nginx + php-fpm, gzip and br"

    def configuration(self):
        compression = (f"gzip on; gzip_comp_level {self.level}; gzip_types text/plain; gzip_min_length 100; gzip_vary on; "
                       f"brotli on; brotli_comp_level {self.brotli_level}; brotli_types text/plain; brotli_min_length 100;")
        brotli = "load_module /usr/lib/nginx/modules/ngx_http_brotli_filter_module.so; "
        return brotli + super().configuration().replace("access_log off;", f"access_log off; {compression}")


class TuttiCompressing(Compressing, Tutti):
    label = "tutti, gzip and br"

    def configuration(self):
        configuration = super().configuration()
        compressors = [{"encoding": "br", "level": self.brotli_level, "min_length": 100},
                       {"encoding": "gzip", "level": self.level, "min_length": 100}]
        configuration["settings"]["http"]["compression"] = {"types": ["text/*"], "compressors": compressors}
        return configuration


def p29(context):
    loads = [(Wrk(1, 64, context.seconds, header=f"Accept-Encoding: {method}"), path)
             for method in ("gzip", "br") for path in (Compressing.page, Compressing.php_page)]

    def verdict(table):
        checks = [ratio(table, "rps", load.name, path, at_least=1.0, peer=NginxCompressing.label, own=TuttiCompressing.label)
                  for load, path in loads]
        return [*checks, no_errors(table, TuttiCompressing.label)]

    return Case("P29", f"gzip (level {Compressing.level}) and br (level {Compressing.brotli_level}) of a page of 20 KB",
                "≥ 1.0 × nginx at the same level", [(NginxCompressing, 4, None), (TuttiCompressing, 4, None)], loads, verdict,
                note="Tutti keeps the compressed form of a small file; PHP's page is compressed anew for each request by both.")


class TuttiRouting(Tutti):
    """A thousand hosts and a thousand URI patterns before the step that answers; none of them matches."""

    label = "tutti, 1,000 hosts and 1,000 patterns"

    def configuration(self):
        configuration = super().configuration()
        steps = [{"match": {"host": f"site{number}.example.com"}, "action": {"return": 404}} for number in range(PATTERNS)]
        steps += [{"match": {"uri": f"/app{number}/*.html"}, "action": {"return": 404}} for number in range(PATTERNS)]
        configuration["routes"] = steps + configuration["routes"]
        return configuration


def above(table, load, path, server, most):
    """A check of what `server` costs above the plain one."""
    mine, plain = table.find(server, load, path), table.find(Tutti.label, load, path)
    if not mine or not plain:
        return Check(f"CPU above {Tutti.label}: not measured", None)
    value = mine.median("cpu_us") - plain.median("cpu_us")
    return Check(f"CPU ≤ {most} µs a request above {Tutti.label}: {value:.2f}", value <= most)


def p30(context):
    load, path = Wrk(1, 64, context.seconds), "/return"

    def verdict(table):
        return [above(table, load.name, path, TuttiRouting.label, 1.0), no_errors(table, TuttiRouting.label)]

    return Case("P30", "routing past 1,000 hosts and 1,000 URI patterns", "≤ 1 µs a request",
                [(Tutti, 0, None), (TuttiRouting, 0, None)], [(load, path)], verdict)


class NginxLogging(Nginx):
    label = "nginx, access log"

    def configuration(self):
        return super().configuration().replace("access_log off;", f"access_log {self.folder}/access.log combined buffer=64k flush=1s;")


class TuttiLogging(Tutti):
    label = "tutti, access log"

    def configuration(self):
        return {**super().configuration(), "access_log": str(self.folder / "access.log")}


def p32(context):
    load, path = Wrk(1, 64, context.seconds), "/return"

    def verdict(table):
        return [above(table, load.name, path, TuttiLogging.label, 0.5), no_errors(table, TuttiLogging.label)]

    return Case("P32", "access log on", "≤ 0.5 µs a request",
                [(Nginx, 0, None), (NginxLogging, 0, None), (Tutti, 0, None), (TuttiLogging, 0, None)], [(load, path)], verdict,
                note="The common combined format, to a file; nginx with `buffer=64k flush=1s`.")


def cases(context):
    return [p29(context), p30(context), p32(context)]
