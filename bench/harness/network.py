"""Two hosts of our own: network namespaces joined by a veth pair, so that data leaves the loopback device."""

import os
import subprocess


class VethPair:
    """A server's namespace with `address`, and a client's beside it. Needs root and iproute2."""

    def __init__(self):
        number = os.getpid()
        self.server, self.client = f"tutti-s{number}", f"tutti-c{number}"
        self.address = "10.77.0.1"
        self.server_prefix = ("ip", "netns", "exec", self.server)
        self.client_prefix = ("ip", "netns", "exec", self.client)

    def create(self):
        if os.geteuid() != 0:
            raise RuntimeError("network namespaces need root")
        self._ip("netns", "add", self.server)
        self._ip("netns", "add", self.client)
        self._ip("link", "add", "tutti0", "netns", self.server, "type", "veth", "peer", "name", "tutti0", "netns", self.client)
        for namespace, address in ((self.server, self.address), (self.client, "10.77.0.2")):
            self._ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "tutti0")
            self._ip("-n", namespace, "link", "set", "tutti0", "up")
            self._ip("-n", namespace, "link", "set", "lo", "up")

    def remove(self):
        for namespace in (self.server, self.client):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)

    @staticmethod
    def _ip(*arguments):
        result = subprocess.run(["ip", *arguments], check=False, capture_output=True, text=True)
        if result.returncode:
            raise RuntimeError(f"ip {' '.join(arguments)}: {result.stderr.strip()}")
