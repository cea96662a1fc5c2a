// Request heads of known size: `SMALL` is what `wrk` sends, `BROWSER` a Firefox navigation.

const SMALL: &[u8] = b"GET /index.php HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /wiki/index.php?title=Main_Page&action=history HTTP/1.1\r\nHost: example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://example.org/wiki/\r\n\
    Connection: keep-alive\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n\
    Upgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n\
    If-None-Match: \"5f3c-61a\"\r\nPriority: u=0, i\r\n\r\n";
