"""A response that is in the cache (P43): beside a file of that size, nginx's proxy_cache and Varnish, each with a server of its own behind it."""

import http.client

from .cases import Case, no_errors, ratio
from .loads import Wrk
from .proxy import Behind, NginxProxy, TuttiProxy
from .servers import THREADS, NginxCached, Server, Tutti


class Cached(Behind):
    """A cache before a server. A page counts as the same only if it comes from the cache."""

    def get(self, path):
        for _ in range(2):
            connection = http.client.HTTPConnection(self.place.host, self.port, timeout=20)
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            connection.close()
        if not self.is_hit(response):
            raise RuntimeError(f"{self.name} does not answer {path} from its cache")
        return response.status, body


class NginxProxyCache(Cached, NginxProxy):
    """Its files are known by `open_file_cache`."""

    label = "nginx, proxy_cache"
    cached = True

    def upstream(self):
        return f"{super().upstream()} proxy_cache_path {self.folder}/cache keys_zone=pages:16m max_size=256m inactive=1h use_temp_path=off;"

    def locations(self):
        return super().locations().replace("}", "proxy_cache pages; proxy_cache_valid 200 1h; add_header X-Cache $upstream_cache_status; }")

    @staticmethod
    def is_hit(response):
        return response.getheader("X-Cache") == "HIT"


class Varnish(Cached, Server):
    label = "Varnish"
    programs = ("varnishd",)

    def arguments(self):
        return ["varnishd", "-F", "-j", "none", "-n", f"{self.folder}/varnish", "-a", f"{self.place.host}:{self.port}", "-b", self.target,
                "-s", "malloc,256m", "-t", "3600", "-p", f"thread_pools={THREADS}"]

    @staticmethod
    def is_hit(response):
        # The number of the request that brought it stands beside this one's.
        return len(response.getheader("X-Varnish", "").split()) == 2


class TuttiCache(Cached, TuttiProxy):
    label = "tutti, cache"

    def configuration(self):
        configuration = super().configuration()
        configuration["routes"][0]["action"]["cache"] = {"store": "pages", "valid": {"200": 3600}}
        configuration["settings"]["cache"] = {"pages": {"memory": "256M"}}
        return configuration

    @staticmethod
    def is_hit(response):
        return "; hit" in response.getheader("Cache-Status", "")


def p43(context):
    load = Wrk(1, 64, context.seconds)
    loads = [(load, "/file-1k.txt"), (load, "/file-100k.txt")]
    own = TuttiCache.label

    def verdict(table):
        checks = []
        for load, path in loads:
            checks.append(ratio(table, "rps", load.name, path, at_least=0.95, peer=Tutti.label, own=own))
            for peer in (NginxProxyCache.label, Varnish.label):
                checks += [ratio(table, "rps", load.name, path, at_least=1.0, peer=peer, own=own),
                           ratio(table, "cpu_us", load.name, path, at_most=1.0, peer=peer, own=own)]
        return [*checks, no_errors(table, own)]

    return Case("P43", "a response from the cache", "≥ 0.95 × a file of that size, ≥ 1.0 × nginx's proxy_cache and Varnish",
                [(NginxCached, 0, None), (Tutti, 0, None), (NginxProxyCache, 0, None), (Varnish, 0, None), (TuttiCache, 0, None)], loads, verdict,
                note="The two files are beside it; what is behind the caches is asked once. Varnish and Tutti keep it in memory, nginx in a file that it has open.")


def cases(context):
    return [p43(context)]
