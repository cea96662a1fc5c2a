package unit

import (
	"encoding/binary"
	"net/http"
	"net/textproto"
)

// Field names as handlers expect them: `User-Agent`.

// commonFields are spelled without an allocation.
var commonFields = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Cf-Connecting-Ip",
		"Connection", "Content-Encoding", "Content-Language", "Content-Length", "Content-Type", "Cookie", "Date", "Dnt", "Expect",
		"Forwarded", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive",
		"Origin", "Pragma", "Priority", "Proxy-Authorization", "Range", "Referer", "Sec-Ch-Ua", "Sec-Ch-Ua-Mobile",
		"Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Sec-Websocket-Extensions",
		"Sec-Websocket-Key", "Sec-Websocket-Protocol", "Sec-Websocket-Version", "Te", "Traceparent", "Tracestate", "Trailer",
		"Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests", "User-Agent", "Via", "X-Csrf-Token", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id", "X-Requested-With",
	} {
		names[name] = name
	}
	return names
}()

// canonical is textproto.CanonicalMIMEHeaderKey, without an allocation for common names however they are written.
func canonical(name string) string {
	var place [32]byte
	if len(name) > len(place) {
		return textproto.CanonicalMIMEHeaderKey(name)
	}
	isCanonical, isUpper := true, true
	for index := 0; index < len(name); index++ {
		char := name[index]
		if !isToken[char] {
			return name // As net/http: left as it is.
		}
		switch {
		case isUpper && 'a' <= char && char <= 'z':
			char -= 'a' - 'A'
			isCanonical = false
		case !isUpper && 'A' <= char && char <= 'Z':
			char += 'a' - 'A'
			isCanonical = false
		}
		place[index] = char
		isUpper = char == '-'
	}
	if isCanonical {
		return name
	}
	if common, ok := commonFields[string(place[:len(name)])]; ok {
		return common
	}
	return string(place[:len(name)])
}

// isToken has the characters of field names (RFC 9110, 5.6.2).
var isToken = func() (table [256]bool) {
	for char := '0'; char <= 'z'; char++ {
		if char <= '9' || 'A' <= char && char <= 'Z' || 'a' <= char {
			table[char] = true
		}
	}
	for _, char := range "!#$%&'*+-.^_`|~" {
		table[char] = true
	}
	return table
}()

func isFieldName(name string) bool {
	for index := 0; index < len(name); index++ {
		if !isToken[name[index]] {
			return false
		}
	}
	return name != ""
}

// isPlainValue says that a value can be sent as it is: no line breaks, no NUL, no space around it.
func isPlainValue(value string) bool {
	if value == "" {
		return true
	}
	if isSpace(value[0]) || isSpace(value[len(value)-1]) {
		return false
	}
	for index := 0; index < len(value); index++ {
		switch value[index] {
		case '\r', '\n', 0:
			return false
		}
	}
	return true
}

func isSpace(char byte) bool { return char == ' ' || char == '\t' || char == '\r' || char == '\n' }

// plainValue makes a value fit to be sent, as net/http does: line breaks become spaces.
func plainValue(value string) string {
	if isPlainValue(value) {
		return value
	}
	bytes := []byte(value)
	for index, char := range bytes {
		if char == '\r' || char == '\n' || char == 0 {
			bytes[index] = ' '
		}
	}
	return textproto.TrimString(string(bytes))
}

// The bytes in front of an interim answer's fields (spec/wire.md, 6).
const interimPrefix = 8

// encoder writes fields one behind the other (spec/wire.md, 6).
type encoder struct {
	target []byte
	length int
}

// skip leaves room; false where there is none.
func (e *encoder) skip(count int) bool {
	if e.length+count > len(e.target) {
		return false
	}
	e.length += count
	return true
}

// add writes a field; false where it does not fit.
func (e *encoder) add(name, value string) bool {
	at := e.target[e.length:]
	if len(name) > 0xffff || !e.skip(6+len(name)+len(value)) {
		return false
	}
	binary.NativeEndian.PutUint16(at, uint16(len(name)))
	binary.NativeEndian.PutUint32(at[2:], uint32(len(value)))
	copy(at[6:], name)
	copy(at[6+len(name):], value)
	return true
}

// addAll writes all values of the fields with these names.
func (e *encoder) addAll(header http.Header, names []string) bool {
	for _, name := range names {
		for _, value := range header[name] {
			if !e.add(name, plainValue(value)) {
				return false
			}
		}
	}
	return true
}
