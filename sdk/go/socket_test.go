package unit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func piece(opcode, flags byte, text string) []byte {
	bytes := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	return append(append(bytes, opcode, flags), text...)
}

const accepted = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n"

func handshake() fakeRequest {
	return fakeRequest{
		method: "GET", target: "/chat", bodyKind: bodyStream, length: unknownLength, webSocket: true,
		fields: [][2]string{
			{"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
			{"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Extensions", "permessage-deflate"},
		},
	}
}

// takeOver serves WebSockets with a function that has the raw connection.
func takeOver(t *testing.T, serve func(net.Conn, *bufio.ReadWriter, *http.Request)) *fakeRouter {
	return serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		conn, buffers, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		serve(conn, buffers, request)
	})
}

func TestSocketCarriesMessagesBothWays(t *testing.T) {
	r := takeOver(t, func(conn net.Conn, buffers *bufio.ReadWriter, request *http.Request) {
		defer conn.Close()
		if extensions := request.Header.Get("Sec-Websocket-Extensions"); extensions != "" {
			t.Errorf("extensions %q were offered to the program", extensions)
		}
		if buffers.Reader.Buffered() != 0 {
			t.Error("bytes before the handshake")
		}
		io.WriteString(conn, accepted)
		// A text in two frames, a ping between them, cut as badly as can be.
		for _, char := range []byte("\x01\x03abc\x89\x02hi\x80\x03def\x82\x00") {
			if _, err := conn.Write([]byte{char}); err != nil {
				t.Error(err)
			}
		}
		got, err := io.ReadAll(conn)
		want := "\x01\x82\x00\x00\x00\x00he" + "\x8a\x84\x00\x00\x00\x00pong" + "\x80\x83\x00\x00\x00\x00llo" + "\x88\x82\x00\x00\x00\x00\x03\xe8"
		if string(got) != want || err != nil {
			t.Errorf("%q %v\n%q", got, err, want)
		}
		conn.Write([]byte("\x88\x02\x03\xe8"))
	})
	r.queue(1, handshake())
	var got []byte
	want := piece(1, 0, "a")
	for _, next := range [][]byte{
		piece(1, 0, "b"), piece(1, 0, "c"), piece(9, 1, "hi"), piece(1, 0, "d"), piece(1, 0, "e"), piece(1, 1, "f"), piece(2, 1, ""),
	} {
		want = append(want, next...)
	}
	for len(got) < len(want) {
		got = append(got, r.take(1)...)
	}
	if string(got) != string(want) {
		t.Errorf("%q\n%q", got, want)
	}
	at := r.s.slotAt(1)
	if status := *r.s.u32(at + atStatus); status != 101 {
		t.Errorf("status %d", status)
	}
	r.stream(1, piece(1, 0, "he"), false)
	r.stream(1, piece(10, 1, "pong"), false)
	r.stream(1, piece(1, 1, "llo"), false)
	r.stream(1, piece(8, 1, "\x03\xe8"), true)
	end := r.response(1)
	if end.fields != "Sec-Websocket-Protocol: chat\n" || end.end != endWhole || end.body != string(piece(8, 1, "\x03\xe8")) {
		t.Errorf("%+v", end)
	}
}

// Bytes that gorilla/websocket and others would take for a fault of the client's.
func TestSocketOfAClientThatVanishesEnds(t *testing.T) {
	done := make(chan struct{})
	r := takeOver(t, func(conn net.Conn, buffers *bufio.ReadWriter, _ *http.Request) {
		defer close(done)
		defer conn.Close()
		io.WriteString(conn, accepted)
		got, err := io.ReadAll(conn)
		if want := "\x81\x82\x00\x00\x00\x00hi"; string(got) != want || err != nil {
			t.Errorf("%q %v, not %q", got, err, want)
		}
		if count, err := conn.Read(make([]byte, 1)); count != 0 || err != io.EOF {
			t.Errorf("%d %v after the end", count, err)
		}
	})
	r.queue(1, handshake())
	r.stream(1, piece(1, 1, "hi"), false)
	r.stream(1, piece(8, 1, "\x03\xee"), true)
	<-done
}

func TestSocketCarriesLargeMessages(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 50000)
	r := takeOver(t, func(conn net.Conn, buffers *bufio.ReadWriter, _ *http.Request) {
		defer conn.Close()
		frame := binary.BigEndian.AppendUint64([]byte{0x82, 127}, uint64(len(text)))
		conn.Write(append([]byte(accepted), append(frame, text...)...))
		// The answer is taken apart by its length only.
		var got bytes.Buffer
		for got.Len() < len(text) {
			head := make([]byte, 2)
			io.ReadFull(buffers, head)
			length := uint64(head[1] & 0x7f)
			switch length {
			case 126:
				io.ReadFull(buffers, head)
				length = uint64(binary.BigEndian.Uint16(head))
			case 127:
				long := make([]byte, 8)
				io.ReadFull(buffers, long)
				length = binary.BigEndian.Uint64(long)
			}
			io.CopyN(io.Discard, buffers, 4)
			if _, err := io.CopyN(&got, buffers, int64(length)); err != nil {
				t.Error(err)
				return
			}
		}
		if got.String() != text {
			t.Error("the message has changed on its way in")
		}
	})
	r.queue(1, handshake())
	go func() {
		for rest := text; rest != ""; {
			now := rest[:min(len(rest), 30000)]
			rest = rest[len(now):]
			flags := byte(0)
			if rest == "" {
				flags = 1
			}
			// Published whole.
			at := r.s.slotAt(1)
			r.wait("room for a piece", func() bool {
				return streamSize-(*r.s.u64(at + atStreamWritten)-atomic.LoadUint64(r.s.u64(at+atStreamConsumed))) >= uint64(len(now)+6)
			})
			r.stream(1, piece(2, flags, now), false)
		}
	}()
	got := r.response(1)
	var body strings.Builder
	for rest := got.body; rest != ""; {
		length := int(binary.LittleEndian.Uint32([]byte(rest)))
		body.WriteString(rest[6 : 6+length])
		isLast := rest[5] == 1
		rest = rest[6+length:]
		if isLast != (rest == "") {
			t.Fatal("the message ends too early or too late")
		}
	}
	if body.String() != text {
		t.Errorf("%d bytes, not %d", body.Len(), len(text))
	}
	if got.end != endAborted {
		t.Error("a connection closed without a close frame counts as clean")
	}
}

func TestSocketMayRefuse(t *testing.T) {
	r := takeOver(t, func(conn net.Conn, _ *bufio.ReadWriter, _ *http.Request) {
		io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nX-Why: because\r\nTransfer-En")
		io.WriteString(conn, "coding: chunked\r\n\r\n3\r\nno!\r\n")
		io.WriteString(conn, "0\r\n\r\n")
		conn.Close()
	})
	want := fakeResponse{status: 403, fields: "X-Why: because\nContent-Type: text/plain; charset=utf-8\n", body: "no!", end: endWhole}
	r.queue(1, handshake())
	if got := r.response(1); got != want {
		t.Errorf("%+v", got)
	}
}

// The end of the handler ended the response, too, as if it were the handler's own.
func TestSocketMayRefuseAfterItsHandlerHasReturned(t *testing.T) {
	half := strings.Repeat("x", 40<<10)
	begun, returned := make(chan bool), make(chan bool)
	r := takeOver(t, func(conn net.Conn, _ *bufio.ReadWriter, _ *http.Request) {
		io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 81920\r\n\r\n"+half)
		<-begun
		go func() {
			<-returned
			io.WriteString(conn, half)
			conn.Close()
		}()
	})
	r.queue(1, handshake())
	r.wait("the head", func() bool { return atomic.LoadUint32(r.s.u32(r.s.slotAt(1)+atHeadPlace)) != 0 })
	close(begun)
	r.wait("the handler to return", func() bool {
		r.w.idle.mu.Lock()
		defer r.w.idle.mu.Unlock()
		return len(r.w.idle.waiting) == 1
	})
	close(returned)
	if got := r.response(1); got.body != half+half || got.end != endWhole {
		t.Errorf("%d bytes, end %d", len(got.body), got.end)
	}
}

func TestSocketRefusesWhatIsNoFrame(t *testing.T) {
	for _, frame := range []string{"\xc1\x00", "\x81\x80", "\x83\x00", "\x80\x00", "\x8b\x00", "\x09\x00", "\x89\x7e\x00\x80", "\x82\xff\x00\x00\x00\x00\x00\x00\x00\x01"} {
		r := takeOver(t, func(conn net.Conn, _ *bufio.ReadWriter, _ *http.Request) {
			defer conn.Close()
			io.WriteString(conn, accepted)
			if _, err := io.WriteString(conn, frame); err == nil {
				t.Errorf("%q was taken for a frame", frame)
			}
		})
		r.queue(1, handshake())
		r.response(1)
	}
}

func TestSocketDeadlinesAndEnds(t *testing.T) {
	ended := make(chan error, 1)
	r := takeOver(t, func(conn net.Conn, _ *bufio.ReadWriter, _ *http.Request) {
		io.WriteString(conn, accepted)
		conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := conn.Read(make([]byte, 10)); !os.IsTimeout(err) {
			t.Errorf("%v is no timeout", err)
		}
		conn.SetReadDeadline(time.Time{})
		_, err := conn.Read(make([]byte, 10))
		ended <- err
		if _, err := conn.Write([]byte("\x81\x01a")); err == nil {
			t.Error("writing to a client that has gone is no error")
		}
		conn.Close()
		if _, err := conn.Read(make([]byte, 10)); err != net.ErrClosed {
			t.Error(err)
		}
	})
	r.queue(1, handshake())
	r.wait("the second wait", func() bool {
		open := r.w.calls[1].Load()
		if open == nil {
			return false
		}
		open.mu.Lock()
		defer open.mu.Unlock()
		return open.socket != nil && open.socket.readLimit.isUnset() && open.data.waiters != nil
	})
	r.clientGoes(1)
	if err := <-ended; err != io.EOF {
		t.Error(err)
	}
	r.response(1)
}

// leavesAfter sets `limits.requests`.
func (r *fakeRouter) leavesAfter(requests uint64) {
	atomic.StoreUint64(r.s.u64(r.s.workerAt(1)+atRequestLimit), requests)
}

// The router finds by `ready` that the process takes no more, and starts another one.
func TestProcessThatReachesItsLimitSaysSoAndKeepsItsSockets(t *testing.T) {
	said := make(chan bool)
	r := takeOver(t, func(conn net.Conn, _ *bufio.ReadWriter, _ *http.Request) {
		defer conn.Close()
		io.WriteString(conn, accepted)
		<-said
		conn.Write([]byte("\x81\x02hi\x88\x02\x03\xe8"))
	})
	r.leavesAfter(1)
	r.queue(1, handshake())
	r.wait("the handshake", func() bool { return atomic.LoadUint32(r.s.u32(r.s.slotAt(1)+atHeadPlace)) != 0 })
	r.wait("the process to say so", func() bool { return atomic.LoadUint32(r.s.u32(r.s.workerAt(1)+atReady)) == isLeaving })
	close(said)
	want := string(piece(1, 1, "hi")) + string(piece(8, 1, "\x03\xe8"))
	if got := r.response(1); got.body != want || got.end != endWhole {
		t.Errorf("%+v", got)
	}
	<-r.done
}
