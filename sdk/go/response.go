package unit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// response is what a handler writes to. The body goes straight into shared memory; the head is encoded when the status is
// set and completed when it must leave: at the first flush, when half a ring has been written, or at the end.
type response struct {
	call    *call
	request *http.Request
	header  http.Header
	limit   limit

	status        int
	contentLength int64 // As declared; -1 for not.
	written       int64 // By the handler, sent or not.
	isHead        bool
	wroteHeader   bool
	hijacked      bool
	switching     bool // WriteHeader(101): Hijack accepts the handshake with the fields there are.
	finished      bool

	// The fields that decide about Content-Type and Content-Length, from the time the status was set.
	hasType, hasLength, hasEncoding, hasTransferEncoding bool
	// Bytes of the head area that interim answers take, which the head follows.
	interims int
	// Names of fields behind the body.
	trailers []string
	// The encoded head, where it does not go straight into the slot's head area.
	large  []byte
	length int // The bytes of the head that are encoded so far.
	fields uint32
}

// Room for what is added to a head when it leaves.
const headReserve = 512

var copyBuffers = sync.Pool{New: func() any {
	buffer := make([]byte, 32*1024)
	return &buffer
}}

func (w *response) init(c *call, request *http.Request) {
	w.call = c
	w.request = request
	w.contentLength = -1
	w.isHead = request.Method == http.MethodHead
}

func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *response) WriteHeader(status int) {
	switch {
	case w.hijacked:
		log.Printf("http: response.WriteHeader on hijacked connection from %s", caller())
		return
	case w.wroteHeader:
		log.Printf("http: superfluous response.WriteHeader call from %s", caller())
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	case status == http.StatusSwitchingProtocols:
		w.switching = true // coder/websocket says so before it takes the connection over.
		return
	case status == http.StatusContinue:
		return // It is sent when the body is read.
	case status < 200:
		w.interim(status)
		return
	}
	w.setStatus(status)
}

// interim sends an answer that another follows, with the fields there are (spec/wire.md, 6).
func (w *response) interim(status int) {
	var place [16]string
	names := place[:0]
	for name := range w.header {
		if isFieldName(name) && name != "Content-Length" && name != "Transfer-Encoding" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	area := c.worker.segment.slice(c.at+headOffset, headSize)[w.interims:]
	block := encoder{target: area}
	if !block.skip(interimPrefix) || !block.addAll(w.header, names) {
		log.Printf("tutti: an answer of status %d is not sent: with those before it, it takes more than %d bytes", status, headSize)
		return
	}
	binary.NativeEndian.PutUint16(area, uint16(status))
	binary.NativeEndian.PutUint16(area[2:], 0)
	binary.NativeEndian.PutUint32(area[4:], uint32(block.length-interimPrefix))
	w.interims += block.length
	atomic.StoreUint32(c.worker.segment.u32(c.at+atInterimsLength), uint32(w.interims))
	c.notify()
}

// placeTrailers writes the fields behind the body, if the head has announced any: those that it named, and those that say so by their
// name. With the call's lock held.
func (w *response) placeTrailers() {
	c := w.call
	if c.ended || len(w.trailers) == 0 {
		return
	}
	start := w.interims
	if c.headPlace == placeHead {
		start += w.length
	}
	s := c.worker.segment
	block := encoder{target: s.slice(c.at+headOffset, headSize)[start:]}
	isWhole := block.addAll(w.header, w.trailers)
	for name, values := range w.header {
		if plain, is := strings.CutPrefix(name, http.TrailerPrefix); is && isFieldName(plain) {
			for _, value := range values {
				isWhole = isWhole && block.add(plain, plainValue(value))
			}
		}
	}
	if !isWhole {
		log.Printf("tutti: the trailer fields are not sent: with the head they take more than %d bytes", headSize)
		return
	}
	*s.u32(c.at + atTrailersLength) = uint32(block.length)
}

// findTrailers keeps the names that the head announces (`Trailer`).
func (w *response) findTrailers() {
	for _, list := range w.header["Trailer"] {
		for _, name := range strings.Split(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			switch name {
			case "Transfer-Encoding", "Content-Length", "Trailer":
			default:
				if isFieldName(name) {
					w.trailers = append(w.trailers, name)
				}
			}
		}
	}
}

func (w *response) setStatus(status int) {
	w.wroteHeader = true
	w.status = status
	if status > 599 {
		log.Printf("tutti: status %d cannot be sent: it must be 200 to 599; answered 500", status)
		w.status = http.StatusInternalServerError
	}
	if declared := first(w.header["Content-Length"]); declared != "" {
		length, err := strconv.ParseInt(declared, 10, 64)
		if err == nil && length >= 0 {
			w.contentLength = length
		} else {
			log.Printf("http: invalid Content-Length of %q", declared)
			delete(w.header, "Content-Length")
		}
	}
	w.hasLength = w.contentLength >= 0
	_, w.hasType = w.header["Content-Type"]
	w.hasEncoding = first(w.header["Content-Encoding"]) != ""
	w.hasTransferEncoding = first(w.header["Transfer-Encoding"]) != ""
	w.findTrailers()
	w.encodeHead()
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func isBodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// encodeHead writes the fields as they are now: what the handler changes later has no effect.
func (w *response) encodeHead() {
	var place [16]string
	names := w.sendable(place[:0])
	w.call.mu.Lock()
	defer w.call.mu.Unlock()
	w.encodeFields(names)
}

// sendable gives the names of the fields that are sent, in order, as net/http sends them; and makes room for a large head.
func (w *response) sendable(names []string) []string {
	size := 0
	for name, values := range w.header {
		if w.isSuppressed(name) || !isFieldName(name) {
			continue
		}
		names = append(names, name)
		for _, value := range values {
			size += 6 + len(name) + len(value)
		}
	}
	for index := 1; index < len(names); index++ {
		for at := index; at > 0 && names[at] < names[at-1]; at-- {
			names[at], names[at-1] = names[at-1], names[at]
		}
	}
	if size > headSize-w.interims-headReserve {
		w.large = make([]byte, size+headReserve)
	}
	return names
}

// encodeFields writes fields to where they leave from. With the call's lock held.
func (w *response) encodeFields(names []string) {
	if w.call.ended {
		return
	}
	for _, name := range names {
		for _, value := range w.header[name] {
			w.addField(name, plainValue(value))
		}
	}
}

// isSuppressed: fields that a response without a body has not, and those that are for behind the body (net/http).
func (w *response) isSuppressed(name string) bool {
	if strings.HasPrefix(name, http.TrailerPrefix) || slices.Contains(w.trailers, name) {
		return true
	}
	switch name {
	case "Content-Type":
		return w.status == http.StatusNotModified
	case "Content-Length", "Transfer-Encoding":
		return !isBodyAllowed(w.status)
	}
	return false
}

// addField appends to the encoded head (spec/wire.md, 6). With the call's lock held.
func (w *response) addField(name, value string) {
	target := w.large
	if target == nil {
		target = w.call.worker.segment.slice(w.call.at+headOffset, headSize)[w.interims:]
	}
	block := encoder{target: target, length: w.length}
	if !block.add(name, value) {
		return // It was measured before; only what is added at the end could be too much, and has its reserve.
	}
	w.length = block.length
	w.fields++
}

// placeHead writes the head for the router. With the call's lock held.
func (w *response) placeHead() {
	c := w.call
	if c.hasHead() || c.ended {
		return
	}
	s := c.worker.segment
	w.sniff()
	place := uint32(placeHead)
	if w.large != nil {
		// Before any byte of the body: it goes to the start of the ring.
		place = placeRing
		if w.length > ringSize {
			log.Printf("tutti: the response's fields take %d bytes, more than %d; answered 500", w.length, ringSize)
			w.status, w.length, w.fields = http.StatusInternalServerError, 0, 0
			place = placeHead
		} else {
			c.put(w.large[:w.length])
		}
		w.large = nil
	}
	*s.u32(c.at + atStatus) = uint32(w.status)
	*s.u32(c.at + atHeadLength) = uint32(w.length)
	*s.u32(c.at + atHeadFields) = w.fields
	c.headPlace = place
}

// sniff adds a Content-Type where the handler gave none, from the first bytes of the body. With the call's lock held.
func (w *response) sniff() {
	if w.hasType || w.hasEncoding || w.hasTransferEncoding || !isBodyAllowed(w.status) || w.call.written == 0 || w.large != nil {
		return
	}
	c := w.call
	start := c.worker.segment.slice(c.at+ringOffset, int(min(c.written, 512)))
	w.addType(start)
}

func (w *response) addType(start []byte) {
	w.hasType = true
	w.addField("Content-Type", http.DetectContentType(start))
}

func (w *response) Write(bytes []byte) (int, error) { return w.write(bytes) }

func (w *response) WriteString(text string) (int, error) { return w.write(stringBytes(text)) }

func (w *response) write(bytes []byte) (int, error) {
	if w.hijacked {
		if len(bytes) > 0 {
			log.Printf("http: response.Write on hijacked connection from %s", caller())
		}
		return 0, http.ErrHijacked
	}
	if !w.wroteHeader {
		w.setStatus(http.StatusOK)
	}
	if len(bytes) == 0 {
		return 0, nil
	}
	if !isBodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(bytes))
	if w.contentLength != -1 && w.written > w.contentLength {
		return 0, http.ErrContentLength
	}
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if (w.isHead || w.large != nil) && !c.ended {
		w.firstBytes(bytes)
	}
	if w.isHead {
		return len(bytes), nil
	}
	return c.write(bytes, &w.limit, w.placeHead)
}

// firstBytes is for heads that cannot wait for more of the body, and bodies that are not sent. With the call's lock held.
func (w *response) firstBytes(bytes []byte) {
	if !w.hasType && !w.hasEncoding && !w.hasTransferEncoding {
		w.addType(bytes[:min(len(bytes), 512)])
	}
	if w.large != nil {
		w.placeHead()
	}
}

// ReadFrom copies without a detour through another buffer of the caller's.
func (w *response) ReadFrom(source io.Reader) (total int64, err error) {
	buffer := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buffer)
	for {
		count, readError := source.Read(*buffer)
		if count > 0 {
			written, err := w.write((*buffer)[:count])
			total += int64(written)
			if err != nil {
				return total, err
			}
		}
		if readError == io.EOF {
			return total, nil
		}
		if readError != nil {
			return total, readError
		}
	}
}

func (w *response) Flush() { w.FlushError() }

// FlushError sends what there is, the head first.
func (w *response) FlushError() error {
	if w.hijacked {
		return http.ErrHijacked
	}
	if !w.wroteHeader {
		w.setStatus(http.StatusOK)
	}
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errEnded
	}
	w.placeHead()
	c.notify()
	if c.isGone() {
		return errClientGone
	}
	return nil
}

// finish ends the response when the handler has returned.
func (w *response) finish() {
	w.finished = true
	if w.hijacked {
		return
	}
	if !w.wroteHeader {
		w.setStatus(http.StatusOK)
	}
	c := w.call
	c.mu.Lock()
	if !c.ended && !c.hasHead() {
		if w.isHead && w.written > 0 && !w.hasLength && !w.hasTransferEncoding && isBodyAllowed(w.status) {
			w.addField("Content-Length", strconv.FormatInt(w.written, 10))
		}
		w.placeHead()
	}
	w.placeTrailers()
	c.mu.Unlock()
	c.end(endWhole)
}

// Hijack hands over the connection of a WebSocket handshake. What is written to it is HTTP and WebSocket frames, as on a
// network; the messages in them go to the router, which speaks with the client. Others cannot be handed over: their connection
// is not in this process.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case w.hijacked:
		return nil, nil, http.ErrHijacked
	case c.ended:
		return nil, nil, errEnded
	case !c.record.isWebSocket():
		return nil, nil, errNoHijack
	case w.wroteHeader:
		return nil, nil, errors.New("tutti: the response has begun")
	}
	s := newSocket(c)
	if w.switching {
		if err := s.accept(w.header.Clone()); err != nil {
			return nil, nil, err
		}
	}
	w.hijacked = true
	c.socket = s
	return c.socket, bufio.NewReadWriter(bufio.NewReader(c.socket), bufio.NewWriter(c.socket)), nil
}

var errNoHijack = fmt.Errorf("tutti: only the connection of a WebSocket handshake can be taken over: %w", http.ErrNotSupported)

// SetReadDeadline is for the request's body.
func (w *response) SetReadDeadline(at time.Time) error {
	w.call.body.limit.set(at)
	return nil
}

// SetWriteDeadline is for the response.
func (w *response) SetWriteDeadline(at time.Time) error {
	w.limit.set(at)
	return nil
}

// EnableFullDuplex has nothing to do: the body may always be read while the response is written.
func (w *response) EnableFullDuplex() error { return nil }

// CloseNotify tells when the client has gone.
func (w *response) CloseNotify() <-chan bool {
	c := w.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goneNotify == nil {
		c.goneNotify = make(chan bool, 1)
		if c.toldGone {
			c.goneNotify <- true
		}
	}
	return c.goneNotify
}

// caller is the place outside this package and net/http that made the call.
func caller() string {
	var places [16]uintptr
	frames := runtime.CallersFrames(places[:runtime.Callers(2, places[:])])
	for {
		frame, more := frames.Next()
		isOurs := strings.HasPrefix(frame.Function, "tutti.internal/go.") || strings.HasPrefix(frame.Function, "unit.nginx.org/go.")
		if !isOurs && !strings.HasPrefix(frame.Function, "net/http.") {
			return fmt.Sprintf("%s (%s:%d)", frame.Function, frame.File, frame.Line)
		}
		if !more {
			return "an unknown place"
		}
	}
}

func logPanic(c *call, reason any) {
	if reason == nil || reason == http.ErrAbortHandler {
		return
	}
	stack := make([]byte, 64<<10)
	stack = stack[:runtime.Stack(stack, false)]
	log.Printf("http: panic serving %s %s from %s: %v\n%s", c.record.string(stringMethod), c.record.string(stringTarget),
		c.record.string(stringRemoteAddress), reason, stack)
}
