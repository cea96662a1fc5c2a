package unit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// socket is the connection that a WebSocket library has taken over. It reads the frames of a client and writes a response and the
// frames of a server, as it would on a network; on the wire there are messages (spec/wire.md, 10). All fields are under the call's
// lock.
type socket struct {
	call       *call
	readLimit  limit
	writeLimit limit
	closed     bool

	// Reading: the head of a frame that has not been read whole, and bytes left of its payload in the stream ring.
	head      []byte
	headPlace [14]byte
	left      uint64
	inMessage bool
	// The client has gone without a close.
	vanished bool

	// Writing: first the response.
	accepted bool
	answer   []byte
	refusal  *refusal
	frames   frameParser
	sent     bool // A close message was sent.
	received bool // One has come.
}

const (
	opContinuation = 0
	opClose        = 8
	maxControl     = 125

	pieceHead = 6
	maxPiece  = ringSize - pieceHead
	// A piece is not cut smaller than this for want of room.
	leastPiece = 16384
	// As net/http's own limit for heads.
	maxAnswer = 1 << 20

	// The code of a close that was none; no frame has it (RFC 6455, 7.4.1).
	closeAbnormal = 1006
)

var errFrame = errors.New("tutti: what was written is no WebSocket frame of a server")

func newSocket(c *call) *socket { return &socket{call: c} }

func (s *socket) LocalAddr() net.Addr { return s.call.localAddress() }

func (s *socket) RemoteAddr() net.Addr {
	record := &s.call.record
	return address{record.string(stringRemoteAddress), record.remotePort()}.netAddr()
}

func (s *socket) SetDeadline(at time.Time) error {
	s.readLimit.set(at)
	s.writeLimit.set(at)
	return nil
}

func (s *socket) SetReadDeadline(at time.Time) error {
	s.readLimit.set(at)
	return nil
}

func (s *socket) SetWriteDeadline(at time.Time) error {
	s.writeLimit.set(at)
	return nil
}

// Read gives frames as a client would send them. Their mask is zero, so that the payload may stay as it is.
func (s *socket) Read(target []byte) (int, error) {
	c := s.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(target) == 0 {
		return 0, nil
	}
	for {
		if s.closed || c.ended {
			return 0, net.ErrClosed
		}
		if len(s.head) > 0 {
			count := copy(target, s.head)
			s.head = s.head[count:]
			if count < len(target) && s.left > 0 {
				count += s.payload(target[count:])
			}
			return count, nil
		}
		if s.left > 0 {
			return s.payload(target), nil
		}
		if err := s.nextPiece(); err != nil {
			return 0, err
		}
	}
}

func (s *socket) payload(target []byte) int {
	count := s.call.takeStream(target[:min(uint64(len(target)), s.left)])
	s.left -= uint64(count)
	return count
}

// nextPiece waits for a piece and makes the head of a frame of it.
func (s *socket) nextPiece() error {
	c := s.call
	segment := c.worker.segment
	written := segment.u64(c.at + atStreamWritten)
	finished := segment.u32(c.at + atStreamFinished)
	isFinished := atomic.LoadUint32(finished) != 0
	amount := atomic.LoadUint64(written) - c.position
	switch {
	case s.vanished:
		return io.EOF
	case amount >= pieceHead && amount <= streamSize:
		var head [pieceHead]byte
		c.takeStream(head[:])
		length := uint64(binary.LittleEndian.Uint32(head[:]))
		if length > amount-pieceHead {
			return io.ErrUnexpectedEOF
		}
		if head[4] == opClose && length >= 2 {
			return s.close(length)
		}
		s.frame(head[4], head[5]&1 != 0, length)
		s.left = length
		return nil
	case isFinished || c.isGone():
		return io.EOF
	}
	return c.await(waitsForData, &c.data, &s.readLimit, func() bool {
		return atomic.LoadUint64(written) != c.position || atomic.LoadUint32(finished) != 0 || c.isGone() || s.closed
	})
}

// close makes a close frame of a message that has a code. That of a client which has vanished is the end of the connection.
func (s *socket) close(length uint64) error {
	var code [2]byte
	s.call.takeStream(code[:])
	if binary.BigEndian.Uint16(code[:]) == closeAbnormal {
		s.vanished = true
		return io.EOF
	}
	s.frame(opClose, true, length)
	s.head = append(s.head, code[:]...)
	s.left = length - 2
	return nil
}

// frame encodes the head of a masked frame (RFC 6455, 5.2).
func (s *socket) frame(opcode byte, isLast bool, length uint64) {
	first := opcode
	if opcode < opClose {
		if s.inMessage {
			first = opContinuation
		}
		s.inMessage = !isLast
	}
	if opcode == opClose {
		s.received = true
	}
	if isLast {
		first |= 0x80
	}
	const masked = 0x80
	head := append(s.headPlace[:0], first)
	switch {
	case length <= maxControl:
		head = append(head, masked|byte(length))
	case length <= 0xffff:
		head = binary.BigEndian.AppendUint16(append(head, masked|126), uint16(length))
	default:
		head = binary.BigEndian.AppendUint64(append(head, masked|127), length)
	}
	s.head = append(head, 0, 0, 0, 0)
}

// Write takes the response to the handshake, then frames.
func (s *socket) Write(source []byte) (written int, err error) {
	c := s.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed || c.ended {
		return 0, net.ErrClosed
	}
	rest := source
	if !s.accepted {
		if s.refusal != nil {
			return s.refuse(source)
		}
		if rest, err = s.answerWith(source); err != nil {
			return 0, err
		}
		if s.refusal != nil {
			answer := s.answer
			s.answer = nil
			_, err = s.refuse(answer)
			return len(source), err
		}
	}
	for len(rest) > 0 {
		count, err := s.frames.next(s, rest)
		rest = rest[count:]
		if err != nil {
			return len(source) - len(rest), err
		}
	}
	if s.accepted && c.signalled != c.written {
		c.notify()
	}
	return len(source), nil
}

// answerWith collects the head of the response; what follows it are frames.
func (s *socket) answerWith(source []byte) (frames []byte, err error) {
	s.answer = append(s.answer, source...)
	head, rest, isWhole := bytes.Cut(s.answer, []byte("\r\n\r\n"))
	if !isWhole {
		if len(s.answer) > maxAnswer {
			return nil, errors.New("tutti: the response has no end of its head")
		}
		return nil, nil
	}
	line, fields, _ := strings.Cut(string(head), "\r\n")
	version, status, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(version, "HTTP/1.") {
		return nil, errors.New("tutti: what was written is no response")
	}
	status, _, _ = strings.Cut(status, " ")
	if status != "101" {
		s.refusal = newRefusal(s.call)
		return nil, nil
	}
	header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(fields + "\r\n\r\n"))).ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	return rest, s.accept(http.Header(header))
}

// accept opens the WebSocket with the fields of the program that are its own.
func (s *socket) accept(header http.Header) error {
	if extensions := header.Get("Sec-Websocket-Extensions"); extensions != "" {
		return errors.New("tutti: WebSocket extensions that were not offered: " + strconv.Quote(extensions))
	}
	for _, name := range []string{"Upgrade", "Connection", "Sec-Websocket-Accept", "Sec-Websocket-Extensions", "Content-Length"} {
		delete(header, name)
	}
	s.answer = nil
	s.accepted = true
	s.call.response.accept(header)
	return nil
}

func (s *socket) refuse(bytes []byte) (int, error) {
	// The response is written from another goroutine, which needs the lock.
	s.call.mu.Unlock()
	defer s.call.mu.Lock()
	return s.refusal.Write(bytes)
}

// send puts one message, or a part of one, in the response ring.
func (s *socket) send(opcode byte, isLast bool, payload []byte) error {
	c := s.call
	for {
		if c.ended || s.closed {
			return net.ErrClosed
		}
		if c.isGone() {
			return errClientGone
		}
		if s.sent {
			return errClosing
		}
		needed := pieceHead + min(len(payload), leastPiece)
		if c.roomFor(needed) < needed {
			err := c.await(waitsForRoom, &c.room, &s.writeLimit, func() bool {
				return c.roomFor(needed) >= needed || c.isGone() || s.closed
			})
			if err != nil {
				return err
			}
			continue
		}
		now := payload[:min(len(payload), maxPiece, c.freeRoom()-pieceHead)]
		payload = payload[len(now):]
		var head [pieceHead]byte
		binary.LittleEndian.PutUint32(head[:], uint32(len(now)))
		head[4] = opcode
		if isLast && len(payload) == 0 {
			head[5] = 1
		}
		c.put(head[:])
		c.put(now)
		s.sent = s.sent || opcode == opClose
		if len(payload) == 0 {
			return nil
		}
		c.notify()
	}
}

var errClosing = errors.New("tutti: a close frame has been written")

// Close ends the connection; without a close frame before, not cleanly.
func (s *socket) Close() error {
	c := s.call
	c.mu.Lock()
	if s.closed {
		c.mu.Unlock()
		return net.ErrClosed
	}
	s.closed = true
	refusal := s.refusal
	isClean := s.sent || s.received
	c.data.ring()
	c.room.ring()
	c.mu.Unlock()
	switch {
	case refusal != nil:
		refusal.Close()
	case isClean:
		c.end(endWhole)
	default:
		c.end(endAborted)
	}
	return nil
}

// frameParser takes a server's frames apart.
type frameParser struct {
	head    [10]byte
	filled  int
	inside  bool // Between head and end of a frame.
	left    uint64
	opcode  byte
	isLast  bool
	message byte // Opcode of the message that goes on; 0 for none.
	control []byte
}

// next takes some bytes: of a head, or of a payload.
func (p *frameParser) next(s *socket, source []byte) (int, error) {
	if p.inside {
		return p.payload(s, source)
	}
	count := copy(p.head[p.filled:p.headLength()], source)
	p.filled += count
	if p.filled < p.headLength() {
		return count, nil
	}
	if err := p.begin(); err != nil {
		return count, err
	}
	if p.left == 0 {
		_, err := p.payload(s, nil)
		return count, err
	}
	return count, nil
}

// headLength is as much as is known of the length so far.
func (p *frameParser) headLength() int {
	if p.filled >= 2 {
		switch p.head[1] & 0x7f {
		case 126:
			return 4
		case 127:
			return 10
		}
	}
	return 2
}

func (p *frameParser) begin() error {
	first, second := p.head[0], p.head[1]
	p.left = uint64(second & 0x7f)
	switch p.left {
	case 126:
		p.left = uint64(binary.BigEndian.Uint16(p.head[2:]))
	case 127:
		p.left = binary.BigEndian.Uint64(p.head[2:])
	}
	p.filled = 0
	p.opcode, p.isLast = first&0x0f, first&0x80 != 0
	isMasked, hasExtension := second&0x80 != 0, first&0x70 != 0
	isControl := p.opcode >= opClose
	switch {
	case isMasked || hasExtension || p.left>>63 != 0:
		return errFrame
	case isControl && (p.left > maxControl || !p.isLast || p.opcode > 10):
		return errFrame
	case !isControl && p.opcode > 2:
		return errFrame
	case !isControl && (p.opcode == opContinuation) != (p.message != 0):
		return errFrame
	}
	if !isControl {
		if p.opcode == opContinuation {
			p.opcode = p.message
		}
		p.message = p.opcode
	}
	p.inside = true
	return nil
}

func (p *frameParser) payload(s *socket, source []byte) (int, error) {
	now := source[:min(uint64(len(source)), p.left)]
	p.left -= uint64(len(now))
	isEnd := p.left == 0
	p.inside = !isEnd
	if p.opcode >= opClose {
		p.control = append(p.control, now...)
		if !isEnd {
			return len(now), nil
		}
		control := p.control
		p.control = p.control[:0]
		return len(now), s.send(p.opcode, true, control)
	}
	isLast := isEnd && p.isLast
	if isLast {
		p.message = 0
	}
	if len(now) == 0 && !isLast {
		return 0, nil
	}
	return len(now), s.send(p.opcode, isLast, now)
}

// refusal is a response other than 101, written to a connection that was taken over.
type refusal struct {
	*io.PipeWriter
	done chan struct{}
}

func newRefusal(c *call) *refusal {
	reader, writer := io.Pipe()
	r := &refusal{writer, make(chan struct{})}
	go func() {
		defer close(r.done)
		how := uint32(endAborted)
		if c.relay(reader) == nil {
			how = endWhole
		}
		reader.CloseWithError(io.ErrClosedPipe)
		c.end(how)
	}()
	return r
}

func (r *refusal) Close() error {
	err := r.PipeWriter.Close()
	<-r.done
	return err
}

// relay sends a response that comes as bytes. It has a response of its own: the handler may still use the one that was taken over.
func (c *call) relay(source io.Reader) error {
	answer, err := http.ReadResponse(bufio.NewReader(source), c.response.request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	w := &response{interims: c.response.interims}
	w.init(c, c.response.request)
	w.header = answer.Header
	w.setStatus(answer.StatusCode)
	if _, err := io.Copy(struct{ io.Writer }{w}, answer.Body); err != nil {
		return err
	}
	w.finish()
	return nil
}

// accept sends the head that opens a WebSocket. With the call's lock held.
func (w *response) accept(header http.Header) {
	w.header = header
	w.status = http.StatusSwitchingProtocols
	w.wroteHeader = true
	w.hasType = true
	w.encodeFields(w.sendable(nil))
	w.placeHead()
	w.call.notify()
}
