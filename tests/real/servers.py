"""The servers that a site can be put on: Tutti, or nginx + php-fpm to check the test itself."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))

from harness.servers import NginxFpm, Tutti, WORKER_GROUP, WORKER_USER  # noqa: E402


class RealTutti(Tutti):
    """Configured by one PUT with what the site says."""

    patience = 400

    def __init__(self, folder, site, dist):
        self.dist = dist
        self.real = site
        super().__init__(folder, site.root, 4)

    def configuration(self):
        return self.real.tutti(f"127.0.0.1:{self.port}")


class RealNginx(NginxFpm):
    """The same site as most people run it today."""

    def __init__(self, folder, site):
        self.real = site
        super().__init__(folder, site.root, 4)

    def locations(self):
        environment = "".join(f"fastcgi_param {name} '{value}';\n" for name, value in self.real.environment.items())
        return f"client_max_body_size 64m;\ninclude /etc/nginx/mime.types;\n{self.real.nginx(self.php(environment))}"

    @staticmethod
    def php(environment):
        return ("include /etc/nginx/fastcgi_params;\n"
                "fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\n"
                "set $path_info $fastcgi_path_info;\n"
                "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n"
                "fastcgi_param SCRIPT_NAME $fastcgi_script_name;\n"
                "fastcgi_param PATH_INFO $path_info;\n"
                # Debian's fastcgi_params drop the port here, and a site on a free port needs it.
                "fastcgi_param HTTP_HOST $http_host;\n"
                f"{environment}fastcgi_pass php;")


def own(*paths):
    """Gives files to the user that applications run as (`nobody`), when root prepares them."""
    if os.geteuid() != 0:
        return
    import grp
    import pwd
    user, group = pwd.getpwnam(WORKER_USER).pw_uid, grp.getgrnam(WORKER_GROUP).gr_gid
    for path in map(Path, paths):
        for entry in [path, *path.rglob("*")]:
            os.chown(entry, user, group, follow_symlinks=False)
