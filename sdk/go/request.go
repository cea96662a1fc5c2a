package unit

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

var (
	protocolNames = [4]string{"HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"}
	majors        = [4]int{1, 1, 2, 3}
	minors        = [4]int{0, 1, 0, 0}
)

// newRequest makes what the handler gets. Everything in it is a copy, so that it may outlive the request.
func (c *call) newRequest() *http.Request {
	record := &c.record
	version := min(record.versionMinor(), len(protocolNames)-1)
	request := http.Request{
		Method:     record.string(stringMethod),
		RequestURI: record.string(stringTarget),
		Proto:      protocolNames[version],
		ProtoMajor: majors[version],
		ProtoMinor: minors[version],
		RemoteAddr: remoteAddress(record.string(stringRemoteAddress), record.remotePort()),
		Body:       http.NoBody,
	}
	request.URL = parseTarget(request.Method, request.RequestURI)
	follow(request.URL, record.string(stringPath), record.string(stringQuery))
	request.Header, request.Host = c.headers()
	request.Close = wantsClose(version, request.Header["Connection"])
	if record.isTLS() {
		request.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: record.string(stringServerName)}
	}
	c.context.call = c
	if kind := record.bodyKind(); kind != bodyNone && !record.isWebSocket() {
		c.body.call = c
		request.Body = &c.body
		request.ContentLength = -1
		if length := record.contentLength(); length != unknownLength {
			request.ContentLength = int64(length)
		} else if record.versionMinor() == 1 {
			request.TransferEncoding = []string{"chunked"}
		}
	}
	return request.WithContext(&c.context)
}

// headers gives the fields, Host among them, which net/http takes out: programs for Unit read it there.
func (c *call) headers() (header http.Header, host string) {
	record := &c.record
	count := record.fieldCount()
	header = make(http.Header, count)
	// All values in one piece of memory; each may grow only by moving away.
	values := make([]string, count)
	for index := 0; index < count; index++ {
		name, value := record.field(index)
		name = canonical(name)
		switch name {
		case "Host":
			if host == "" {
				host = value
			}
		case "Transfer-Encoding":
			continue
		case "Sec-Websocket-Extensions":
			// The router speaks WebSocket with the client, and messages arrive here as they are.
			if record.isWebSocket() {
				continue
			}
		}
		if earlier := header[name]; earlier != nil {
			header[name] = append(earlier, value)
			continue
		}
		values[index] = value
		header[name] = values[index : index+1 : index+1]
	}
	return header, host
}

// wantsClose is what net/http says in Request.Close.
func wantsClose(version int, connection []string) bool {
	if version > 1 || version == 1 && len(connection) == 0 {
		return false
	}
	isKept := false
	for _, value := range connection {
		for _, token := range strings.Split(value, ",") {
			switch token = strings.TrimSpace(token); {
			case strings.EqualFold(token, "close"):
				return true
			case strings.EqualFold(token, "keep-alive"):
				isKept = true
			}
		}
	}
	return version == 0 && !isKept
}

// parseTarget is what net/http makes of the request's target. The router has checked it.
func parseTarget(method, target string) *url.URL {
	if isSimpleTarget(target) {
		path, query, hasQuery := strings.Cut(target, "?")
		return &url.URL{Path: path, RawQuery: query, ForceQuery: hasQuery && query == ""}
	}
	if method == http.MethodConnect && !strings.HasPrefix(target, "/") {
		if parsed, err := url.ParseRequestURI("http://" + target); err == nil {
			parsed.Scheme = ""
			return parsed
		}
	}
	if parsed, err := url.ParseRequestURI(target); err == nil {
		return parsed
	}
	// A target that is no URI for Go: the raw form is still in RequestURI.
	path, query, _ := strings.Cut(target, "?")
	return &url.URL{Path: path, RawQuery: query}
}

// follow puts the path and the query that were routed in place of the client's where a `rewrite` has changed them; RequestURI stays what the
// client asked for.
func follow(location *url.URL, routed, query string) {
	if !strings.HasPrefix(location.Path, "/") || !strings.HasPrefix(routed, "/") {
		return
	}
	if location.Path != routed {
		location.Path, location.RawPath = routed, ""
	}
	if location.RawQuery != query {
		location.RawQuery, location.ForceQuery = query, false
	}
}

// isSimpleTarget says that the path needs no decoding and would be encoded again as it is.
func isSimpleTarget(target string) bool {
	if len(target) == 0 || target[0] != '/' {
		return false
	}
	for index := 0; index < len(target); index++ {
		char := target[index]
		if char == '?' {
			// A query is kept raw; what cannot be in one is for the parser to judge.
			for ; index < len(target); index++ {
				if char := target[index]; char <= ' ' || char >= 0x7f || char == '#' {
					return false
				}
			}
			return true
		}
		if !isPathChar[char] {
			return false
		}
	}
	return len(target) < 2 || target[1] != '/'
}

var isPathChar = func() (table [256]bool) {
	for char := 'a'; char <= 'z'; char++ {
		table[char], table[char-'a'+'A'] = true, true
	}
	for _, char := range "0123456789-_.~/$&+,:;=@" {
		table[char] = true
	}
	return table
}()

func remoteAddress(host string, port uint16) string {
	if host == "unix:" {
		return "@" // As net/http calls a client of a UNIX socket.
	}
	if !strings.Contains(host, ":") {
		return host + ":" + strconv.Itoa(int(port))
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// body is a request's body, where the router has put it.
type body struct {
	call  *call
	limit limit
	sawEOF,
	closed bool
}

func (b *body) Read(target []byte) (int, error) {
	c := b.call
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case b.closed || c.ended:
		return 0, http.ErrBodyReadAfterClose
	case b.sawEOF:
		return 0, io.EOF
	case len(target) == 0:
		return 0, nil
	}
	count, err := b.read(target)
	b.sawEOF = err == io.EOF
	return count, err
}

func (b *body) read(target []byte) (int, error) {
	c := b.call
	offset, length := c.record.body()
	switch c.record.bodyKind() {
	case bodyInline, bodySpool:
		left := length - min(length, c.position)
		if left == 0 {
			return 0, io.EOF
		}
		target = target[:min(uint64(len(target)), left)]
		if c.record.bodyKind() == bodyInline {
			copy(target, c.inline(offset, length)[c.position:])
		} else if err := c.readSpool(target, offset+c.position); err != nil {
			return 0, err
		}
		c.position += uint64(len(target))
		if c.position == length {
			// With the last bytes, as net/http does where it knows the length.
			return len(target), io.EOF
		}
		return len(target), nil
	case bodyStream:
		return c.readStream(target, &b.limit)
	}
	return 0, io.EOF
}

// inline is the body in the record.
func (c *call) inline(offset, length uint64) []byte {
	if c.inSpool != nil {
		return c.inSpool[offset : offset+length]
	}
	return c.worker.segment.slice(c.at+requestOffset+uintptr(offset), int(length))
}

func (b *body) Close() error {
	b.call.mu.Lock()
	defer b.call.mu.Unlock()
	b.closed = true
	return nil
}
