"""Public applications on Apache, each configuration in our own words with the directives that its files use."""

from imports.apache import PHP, ApacheSite, ReverseProxyApache
from imports.nginx import PICTURE, PROBE
from imports.replay import Request, requests_for


class WithAccessFile(ApacheSite):
    """A site of PHP with a `.htaccess` in its folder."""

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    DirectoryIndex index.php index.html
    <Directory {self.root}/>
        AllowOverride All
        Require all granted
    </Directory>
    {PHP}
</VirtualHost>
"""

    def prepare(self):
        for name in self.programs:
            self.write(name, PROBE)
        for name in self.names:
            self.write(name, f"the content of {name}\n" * 3)
        self.write("picture.jpg", PICTURE)
        self.write(".htaccess", self.access)


class DrupalOnApache(WithAccessFile):
    """Drupal's `.htaccess`: names of its sources are closed, clean addresses, scripts that may be called."""

    name = "apache-drupal"
    scripts = ("/index.php", "/core/install.php", "/update.php", "/core/lib/x.php", "/sites/default/settings.php")
    folders = ("/", "/core/", "/sites/", "/modules/", "/themes/")
    programs = ("index.php", "core/install.php", "update.php", "core/lib/x.php", "sites/default/settings.php")
    names = ("robots.txt", "core/misc/a.js", "core/misc/b.css", "core/c.yml", "core/d.module", "themes/e.twig", "themes/f.svg", "modules/g.txt", "sites/default/files/h.txt", "composer.json", "web.config", "core/i.inc", "core/j.sql")
    access = r"""
<FilesMatch "\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\.php)?|xtmpl|yml)(~|\.sw[op]|\.bak|\.orig|\.save)?$|^(\.(?!well-known).*|Entries.*|Repository|Root|Tag|Template|composer\.(json|lock)|web\.config)$">
  <IfModule mod_authz_core.c>
    Require all denied
  </IfModule>
</FilesMatch>
Options -Indexes
DirectoryIndex index.php index.html index.htm
AddType image/svg+xml svg svgz
<IfModule mod_expires.c>
  ExpiresActive On
  ExpiresDefault A1209600
  <FilesMatch \.php$>
    ExpiresActive Off
  </FilesMatch>
</IfModule>
ErrorDocument 404 /index.php
<IfModule mod_rewrite.c>
  RewriteEngine on
  RewriteRule "/\.|^\.(?!well-known/)" - [F]
  RewriteCond %{REQUEST_FILENAME} !-f
  RewriteCond %{REQUEST_FILENAME} !-d
  RewriteCond %{REQUEST_URI} !=/favicon.ico
  RewriteRule ^ index.php [L]
</IfModule>
Header always set X-Content-Type-Options nosniff
"""

    def extra(self):
        return ["/node/1", "/node/1?destination=x", "/admin/config", "/user/login", "/core", "/sites/default/files/none.txt", "/favicon.ico", "/core/c.yml~"]


class MatomoOnApache(WithAccessFile):
    """A `.htaccess` that closes folders by files of their own."""

    name = "apache-matomo"
    scripts = ("/index.php", "/matomo.php", "/core/x.php", "/config/config.ini.php")
    folders = ("/", "/core/", "/config/", "/js/", "/tmp/")
    programs = ("index.php", "matomo.php", "core/x.php", "config/config.ini.php")
    names = ("matomo.js", "robots.txt", "js/a.js", "js/b.txt", "core/c.txt", "config/d.txt", "tmp/e.txt", "plugins/f.css", "plugins/g.svg", "LICENSE", "README.md", "h.html", "js/i.json")
    access = r"""
<Files ~ "\.md$">
  Require all denied
</Files>
<Files "console">
  Require all denied
</Files>
<FilesMatch "\.(js|css|svg)$">
  Header set Cache-Control "max-age=3600"
</FilesMatch>
"""

    def prepare(self):
        super().prepare()
        for folder in ("core", "config", "tmp"):
            self.write(f"{folder}/.htaccess", "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n")

    def extra(self):
        return ["/matomo.php?idsite=1&rec=1", "/index.php?module=Login", "/core", "/config/none", "/README.MD", "/js/none.js"]


class Boilerplate(WithAccessFile):
    """The rules that h5bp recommends: types, lifetimes, closed names, fields of security, addresses without www."""

    name = "apache-h5bp"
    scripts = ("/index.php", "/app/b.php")
    folders = ("/", "/css/", "/img/", "/app/")
    programs = ("index.php", "app/b.php")
    fields = ("x-content-type-options", "referrer-policy")
    hosts = ("site.example",)
    names = ("css/a.css", "css/b.css", "img/c.svg", "img/d.png", "e.webmanifest", "f.json", "robots.txt", "g.html", "h.bak", "i.conf", "j.sql", "k.log", "fonts/l.woff2", "404.html")
    access = r"""
Options -MultiViews -Indexes
AddType application/manifest+json webmanifest
AddType font/woff2 woff2
AddType image/svg+xml svg svgz
<IfModule mod_rewrite.c>
    RewriteEngine On
    RewriteCond %{HTTP_HOST} ^www\.(.+)$ [NC]
    RewriteRule ^ http://%1%{REQUEST_URI} [R=301,L]
    RewriteRule "/\." - [F]
</IfModule>
<FilesMatch "(^#.*#|\.(bak|conf|dist|fla|in[ci]|log|orig|psd|sh|sql|sw[op])|~)$">
    Require all denied
</FilesMatch>
<IfModule mod_headers.c>
    Header always set X-Content-Type-Options "nosniff"
    Header always set Referrer-Policy "strict-origin-when-cross-origin"
    Header unset X-Powered-By
</IfModule>
<IfModule mod_expires.c>
    ExpiresActive on
    ExpiresDefault "access plus 1 month"
    ExpiresByType text/css "access plus 1 year"
    ExpiresByType text/html "access plus 0 seconds"
</IfModule>
"""

    def extra(self):
        return ["/css/none.css", "/h.bak~", "/app", "/img/.hidden/x", "/.well-known/security.txt"]


class JoomlaOnApache(WithAccessFile):
    """Joomla's `.htaccess`: attacks by the query are refused, clean addresses lead to the script of the site."""

    name = "apache-joomla"
    scripts = ("/index.php", "/administrator/index.php", "/api/index.php")
    folders = ("/", "/administrator/", "/media/", "/images/", "/api/")
    programs = ("index.php", "administrator/index.php", "api/index.php")
    names = ("robots.txt", "media/a.js", "media/b.css", "images/c.svg", "language/d.ini", "templates/e.xml", "htaccess.txt", "media/f.json", "LICENSE.txt", "README.txt", "images/g.png", "media/h.woff2")
    access = r"""
Options +FollowSymlinks
Options -Indexes
<IfModule mod_headers.c>
    Header always set X-Content-Type-Options "nosniff"
</IfModule>
RewriteEngine On
RewriteCond %{QUERY_STRING} base64_encode[^(]*\([^)]*\) [OR]
RewriteCond %{QUERY_STRING} (<|%3C)([^s]*s)+cript.*(>|%3E) [NC,OR]
RewriteCond %{QUERY_STRING} GLOBALS(=|\[|\%[0-9A-Z]{0,2}) [OR]
RewriteCond %{QUERY_STRING} _REQUEST(=|\[|\%[0-9A-Z]{0,2})
RewriteRule .* index.php [F]
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteCond %{REQUEST_URI} ^/api/
RewriteCond %{REQUEST_URI} !^/api/index\.php
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* api/index.php [L]
RewriteCond %{REQUEST_URI} !^/index\.php
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule .* index.php [L]
"""
    fields = ("x-content-type-options",)

    def extra(self):
        return ["/blog/1-hello", "/index.php/blog", "/?x=GLOBALS[a]", "/?x=base64_encode(a)", "/?x=%3Cscript%3E", "/api/v1/users", "/administrator", "/images/none.png"]


class MediaWikiOnApache(WithAccessFile):
    """Short addresses of MediaWiki, folders whose scripts do not run, and pages of a wiki as texts."""

    name = "apache-mediawiki"
    scripts = ("/w/index.php", "/w/api.php", "/w/load.php", "/w/LocalSettings.php")
    folders = ("/", "/w/", "/w/images/", "/w/resources/", "/wiki/")
    programs = ("w/index.php", "w/api.php", "w/load.php", "w/LocalSettings.php", "w/rest.php")
    names = ("robots.txt", "w/resources/a.css", "w/resources/b.js", "w/images/c.png", "w/images/d.txt", "w/skins/e.svg", "w/extensions/f.json", "w/README.md", "w/COPYING", "w/docs/g.txt", "w/languages/h.json", "w/cache/i.txt", "w/maintenance/j.sql")
    access = r"""
RewriteEngine On
RewriteRule ^/?wiki(/.*)?$ /w/index.php [L]
RewriteRule ^/?$ /w/index.php [L]
<FilesMatch "^LocalSettings">
    Require all denied
</FilesMatch>
"""

    def prepare(self):
        super().prepare()
        for folder in ("cache", "maintenance", "languages"):
            self.write(f"w/{folder}/.htaccess", "Require all denied\n")

    def extra(self):
        return ["/wiki/Main_Page", "/wiki/Talk:A/B", "/wiki", "/wiki/A?action=edit", "/w/index.php?title=A", "/w/rest.php/v1/page/A", "/w/cache", "/w/images/none.png", "/wikis"]


class WordPressMultisite(WithAccessFile):
    """A network of WordPress sites in folders: their addresses lead to the same files."""

    name = "apache-wordpress-multisite"
    scripts = ("/index.php", "/wp-login.php", "/blog/wp-login.php", "/wp-admin/index.php", "/blog/wp-admin/index.php")
    folders = ("/", "/wp-admin/", "/blog/", "/wp-content/", "/wp-includes/")
    allowed = (("rules that lead to themselves: Apache gives up with 500, Tutti says 404", lambda request, old, new, differing: (old.status, new.status) == (500, 404)),)
    programs = ("index.php", "wp-login.php", "wp-admin/index.php", "wp-content/index.php")
    names = ("robots.txt", "wp-includes/a.js", "wp-includes/b.css", "wp-content/uploads/c.txt", "wp-content/themes/d.svg", "readme.html", "wp-admin/css/e.css", "wp-content/f.json", "license.txt", "wp-includes/g.png")
    access = r"""
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?wp-admin$ $1wp-admin/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} -f [OR]
RewriteCond %{REQUEST_FILENAME} -d
RewriteRule ^ - [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(wp-(content|admin|includes).*) $2 [L]
RewriteRule ^([_0-9a-zA-Z-]+/)?(.*\.php)$ $2 [L]
RewriteRule . index.php [L]
"""

    def extra(self):
        return ["/blog/2026/hello", "/blog/wp-includes/a.js", "/blog/wp-content/uploads/c.txt", "/blog/wp-admin", "/wp-admin", "/blog", "/category/x?paged=2"]


class TypoOnApache(WithAccessFile):
    """TYPO3's rules: versions in the names of files, closed folders, lifetimes, compression, types."""

    name = "apache-typo3"
    scripts = ("/index.php", "/typo3/index.php")
    folders = ("/", "/typo3/", "/fileadmin/", "/typo3temp/", "/_assets/")
    programs = ("index.php", "typo3/index.php")
    names = ("robots.txt", "fileadmin/a.js", "fileadmin/b.css", "fileadmin/c.svg", "typo3temp/d.txt", "_assets/e.woff2", "fileadmin/f.json", "composer.json", "fileadmin/templates/g.html", "typo3conf/h.yaml", "i.sql", "_assets/j.js.map", "fileadmin/k.webmanifest")
    access = r"""
<IfModule mod_deflate.c>
    AddOutputFilterByType DEFLATE text/css text/javascript
</IfModule>
<IfModule mod_expires.c>
    ExpiresActive on
    ExpiresDefault "access plus 1 month"
    ExpiresByType text/html "access plus 0 seconds"
    ExpiresByType application/json "access plus 0 seconds"
</IfModule>
<IfModule mod_headers.c>
    <FilesMatch "\.(woff2?|svg)$">
        Header set Access-Control-Allow-Origin "*"
    </FilesMatch>
</IfModule>
Options -MultiViews
RewriteBase /
AddType application/manifest+json webmanifest
<IfModule mod_mime.c>
    AddType application/json map
    AddCharset utf-8 .css .js .json .map
</IfModule>
RewriteEngine On
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule ^(.+)\.(\d+)\.(css|js|png)$ $1.$3 [L]
RewriteRule _(?:recycler|temp)_/ - [F]
RewriteRule fileadmin/templates/.*\.(?:txt|ts|typoscript)$ - [F]
RewriteRule (?:typo3conf/.*|composer\.(?:json|lock))$ - [F]
RewriteRule \.sql$ - [F]
RewriteRule ^(?:fileadmin/|typo3temp/|_assets/) - [L]
RewriteRule ^typo3$ typo3/ [R=301,L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteCond %{REQUEST_FILENAME} !-l
RewriteRule ^.*$ %{ENV:CWD}index.php [QSA,L]
"""

    access = access.replace("%{ENV:CWD}", "")

    def extra(self):
        return ["/fileadmin/a.1234567.js", "/fileadmin/none.1.css", "/x/_temp_/y", "/fileadmin/templates/a.ts", "/composer.lock", "/page/sub?id=1", "/typo3", "/typo3/module"]


class JenkinsOnApache(ReverseProxyApache):
    """Jenkins behind Apache, as its documentation has it: encoded slashes, WebSocket, redirects of its own."""

    name = "apache-jenkins"
    modules = ("proxy", "proxy_http", "proxy_wstunnel")
    folders = ("/", "/jenkins/", "/userContent/")
    allowed = (("a script that is not there and has no handler: Tutti says 403 to all of them", lambda request, old, new, differing: (old.status, new.status) == (404, 403) and ".php" in request.target),)

    def configuration(self, port):
        return f"""
<VirtualHost *:{port}>
    ServerName site.example
    DocumentRoot {self.root}
    ProxyRequests Off
    ProxyPreserveHost On
    AllowEncodedSlashes NoDecode
    <Proxy *>
        Order deny,allow
        Allow from all
    </Proxy>
    <Directory {self.root}>
        Require all granted
    </Directory>
    <Location /static>
        ProxyPass !
    </Location>
    ProxyPass /jenkins http://127.0.0.1:{self.backend_port}/jenkins nocanon
    ProxyPassReverse /jenkins http://127.0.0.1:{self.backend_port}/jenkins
    ProxyPassReverse /jenkins http://site.example/jenkins
    RequestHeader set X-Forwarded-Proto "http"
    RequestHeader set X-Forwarded-Port "80"
    Header edit Location ^http:// http://
</VirtualHost>
"""

    def requests(self):
        paths = [f"/jenkins/job/{number}/build?delay={number}" for number in range(90)] + ["/jenkins/job/a%2Fb", "/jenkins", "/jenkinsx", "/jenkins/redirect"]
        made = requests_for(self.paths(), self.folders, self.hosts, (), paths)
        made += [Request(method, path, body=b"a=b" if method in ("POST", "PUT") else b"") for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD") for path in ("/jenkins/x", "/jenkins/redirect", "/jenkins/error")]
        return made


PUBLIC_APACHE = (DrupalOnApache, MatomoOnApache, Boilerplate, JoomlaOnApache, MediaWikiOnApache, WordPressMultisite, TypoOnApache, JenkinsOnApache)
