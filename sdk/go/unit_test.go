package unit

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// golden reads a file of spec/golden: what the other implementation writes.
func golden(t *testing.T, name string, size int) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "spec", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	memory := make([]byte, size)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		words := strings.Fields(line)
		offset, err := strconv.ParseInt(words[0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := hex.DecodeString(strings.Join(words[1:], ""))
		if err != nil {
			t.Fatal(err)
		}
		copy(memory[offset:], bytes)
	}
	return memory
}

func TestGoldenHeaderIsAccepted(t *testing.T) {
	g, err := newGeometry(3, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	fd := newMemfd(t, int64(g.totalLength))
	file := os.NewFile(uintptr(fd), "segment")
	if _, err := file.WriteAt(golden(t, "header.hex", headerLength), 0); err != nil {
		t.Fatal(err)
	}
	s, err := openSegment(fd)
	if err != nil {
		t.Fatal(err)
	}
	if s.slots != 3 || s.workers != 2 || s.threads != 2 {
		t.Errorf("%+v", s.geometry)
	}
	for _, wrong := range []int64{atTotalLength, atSlots, atQueueCells, atSlotStride, atStreamCapacity, atAttentionOffset} {
		original := make([]byte, 1)
		file.ReadAt(original, wrong)
		file.WriteAt([]byte{original[0] + 1}, wrong)
		if _, err := openSegment(fd); err == nil {
			t.Errorf("a header that is wrong at %d was accepted", wrong)
		}
		file.WriteAt(original, wrong)
	}
}

func TestOnlyServersWhoseVersionsMeetOursAreJoined(t *testing.T) {
	g, err := newGeometry(3, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	fd := newMemfd(t, int64(g.totalLength))
	if err := writeHeader(fd, g); err != nil {
		t.Fatal(err)
	}
	write := func(at int64, version uint32) {
		if _, err := syscall.Pwrite(fd, binary.NativeEndian.AppendUint32(nil, version), at); err != nil {
			t.Fatal(err)
		}
	}
	for _, server := range []struct {
		oldest, newest uint32
		joined         bool
	}{
		{wireOldest, wireVersion, true}, {wireOldest, wireVersion + 1, true}, {wireVersion, wireVersion + 3, true},
		{wireOldest - 1, wireOldest, true}, {wireVersion + 1, wireVersion + 1, false}, {wireOldest - 2, wireOldest - 1, false},
	} {
		write(atOldest, server.oldest)
		write(atVersion, server.newest)
		named := fmt.Sprintf("%d-%d", server.oldest, server.newest)
		t.Setenv(variableWire, named)
		t.Setenv(variableWorker, "1")
		t.Setenv(variableDescriptors, "control=1000000,segment=1000000,start=1000000,events=1000000")
		_, told := inherit()
		_, mapped := openSegment(fd)
		for _, err := range []error{told, mapped} {
			if server.joined && err != nil {
				t.Errorf("%s: %v", named, err)
			}
			want := fmt.Sprintf("the server works with versions %s of the wire, this program with %d-%d", named, wireOldest, wireVersion)
			if !server.joined && (err == nil || err.Error() != want) {
				t.Errorf("%s: %v", named, err)
			}
		}
	}
}

func TestGoldenRequestIsRead(t *testing.T) {
	slot := golden(t, "slot-queued.hex", requestOffset+requestSize)
	var r record
	if err := r.parse(slot[requestOffset:]); err != nil {
		t.Fatal(err)
	}
	got := []string{
		r.string(stringMethod), r.string(stringTarget), r.string(stringPath), r.string(stringQuery), r.string(stringScheme),
		r.string(stringRemoteAddress), r.string(stringLocalAddress), r.string(stringServerName), r.string(stringTargetName),
		r.string(stringUser),
	}
	want := []string{"POST", "/a%20b?c=d", "/a b", "c=d", "https", "192.0.2.1", "192.0.2.2", "example.org", "main", "anna"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if r.versionMinor() != 1 || !r.isTLS() || r.isWebSocket() || r.remotePort() != 50000 || r.localPort() != 443 || r.contentLength() != 4 {
		t.Errorf("%x", r.fixed)
	}
	for index, want := range [][2]string{{"Host", "example.org"}, {"X-Empty", ""}} {
		if name, value := r.field(index); name != want[0] || value != want[1] {
			t.Errorf("field %d: %q: %q", index, name, value)
		}
	}
	offset, length := r.body()
	if body := slot[requestOffset+offset:][:length]; string(body) != "body" {
		t.Errorf("%q", body)
	}
}

func TestGoldenResponseIsWritten(t *testing.T) {
	r := serveFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"text/plain"}
		w.Header()["A"] = []string{""}
		w.WriteHeader(404)
		io.WriteString(w, "not here\n")
	})
	asked := monotonicUs()
	r.ask(get("/"))
	at := r.s.slotAt(3)
	if begun := *r.s.u64(at + atBegun); begun < asked || begun > monotonicUs() {
		t.Errorf("begun at %d, asked at %d", begun, asked)
	}
	// The fields of the golden head are in another order than ours, which is sorted.
	want := golden(t, "head.hex", 128)
	split := 6 + len("Content-Typetext/plain")
	want = append(append(want[split:split+7:split+7], want[:split]...), want[split+7:]...)
	if got := r.s.slice(at+headOffset, 128); string(got) != string(want) {
		t.Errorf("head\n% x\n% x", got, want)
	}
	if got := r.s.slice(at+ringOffset, 64); string(got) != string(golden(t, "ring.hex", 64)) {
		t.Errorf("ring % x", got)
	}
	// State, bytes written and consumed, head, status, end.
	done := golden(t, "slot-done.hex", requestOffset)
	if got := r.s.slice(at+atResponseWritten, atEnd+4-atResponseWritten); string(got) != string(done[atResponseWritten:atEnd+4]) {
		t.Errorf("slot\n% x\n% x", got, done[atResponseWritten:atEnd+4])
	}
	if state := atomic.LoadUint64(r.s.u64(at)); state != packState(kindDone, 1, 1) {
		t.Errorf("state %x", state)
	}
}

func TestCorruptRecordsAreRefused(t *testing.T) {
	whole := (&fakeRequest{method: "POST", target: "/", fields: [][2]string{{"A", "b"}}, body: "12345"}).encode()
	for at := range whole {
		for _, value := range []byte{0, 1, 3, 0x7f, 0xff} {
			bytes := append([]byte(nil), whole...)
			bytes[at] = value
			var r record
			if r.parse(bytes) != nil {
				continue
			}
			for place := 0; place < 9; place++ {
				r.string(place)
			}
			for index := 0; index < r.fieldCount(); index++ {
				r.field(index)
			}
		}
	}
	var r record
	for length := range whole {
		if r.parse(whole[:length]) == nil {
			t.Errorf("a record cut to %d bytes was accepted", length)
		}
	}
}

func TestNamesAreSpelledAsNetHTTPSpellsThem(t *testing.T) {
	for _, name := range []string{
		"host", "USER-AGENT", "Accept", "x-a", "X-Some-Name-That-Is-Longer-Than-Most-Names-Are", "etag", "-a--b-", "a b", "ä", "",
		"x_y.z", "SEC-WEBSOCKET-KEY", "content-length",
	} {
		if got, want := canonical(name), textproto.CanonicalMIMEHeaderKey(name); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, target := range []string{"/", "/a/b.c?d=e&f", "//x", "/?", "/a%20b", "*", "/a b", "/x?y z", "/x?y#z", "/[]", "/a;b,c=d:e@f", "/!'()*", "http://h/p"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		want, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		if got := parseTarget("GET", target); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, not %#v", target, got, want)
		}
	})
}

func TestRequestIsWhole(t *testing.T) {
	var got *http.Request
	var body string
	var local any
	served := make(chan struct{})
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		got = request
		local = request.Context().Value(http.LocalAddrContextKey)
		bytes, err := io.ReadAll(request.Body)
		body = fmt.Sprint(string(bytes), err)
		close(served)
	})
	r.ask(fakeRequest{method: "POST", target: "/a%2fb?c=d", body: "the body", fields: [][2]string{
		{"host", "example.org"}, {"user-agent", "x"}, {"Accept", "1"}, {"accept", "2"}, {"Content-Length", "8"}, {"X-New", ""},
	}})
	<-served
	if got.Method != "POST" || got.RequestURI != "/a%2fb?c=d" || got.Host != "example.org" || got.Proto != "HTTP/1.1" ||
		got.ProtoMajor != 1 || got.ProtoMinor != 1 || got.RemoteAddr != "192.0.2.1:50000" || got.ContentLength != 8 || got.TLS != nil {
		t.Errorf("%+v", got)
	}
	if got.URL.Path != "/a/b" || got.URL.RawPath != "/a%2fb" || got.URL.RawQuery != "c=d" {
		t.Errorf("%#v", got.URL)
	}
	want := http.Header{"Host": {"example.org"}, "User-Agent": {"x"}, "Accept": {"1", "2"}, "Content-Length": {"8"}, "X-New": {""}}
	if !reflect.DeepEqual(got.Header, want) {
		t.Errorf("%#v", got.Header)
	}
	if body != "the body<nil>" {
		t.Errorf("body %q", body)
	}
	if fmt.Sprint(local) != "192.0.2.2:80" {
		t.Errorf("local address %v", local)
	}
	if got.Context().Err() != context.Canceled {
		t.Error("the context lives on after the handler")
	}
	if _, err := got.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
		t.Errorf("the body can be read after the handler: %v", err)
	}
}

func TestResponses(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20000)
	cases := map[string]struct {
		handler http.HandlerFunc
		method  string
		want    fakeResponse
	}{
		"nothing": {handler: func(http.ResponseWriter, *http.Request) {}, want: fakeResponse{status: 200}},
		"text": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
			want:    fakeResponse{status: 200, fields: "Content-Type: text/plain; charset=utf-8\n", body: "hello"},
		},
		"sniffed over several writes": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "<ht")
				io.WriteString(w, "ml>")
			},
			want: fakeResponse{status: 200, fields: "Content-Type: text/html; charset=utf-8\n", body: "<html>"},
		},
		"fields after the status are ignored": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-B", "1")
				w.Header().Set("X-A", " a\r\nb ")
				w.Header()["no good"] = []string{"x"}
				w.WriteHeader(http.StatusTeapot)
				w.Header().Set("X-C", "1")
			},
			want: fakeResponse{status: 418, fields: "X-A: a  b\nX-B: 1\n"},
		},
		"head only": {
			method:  "HEAD",
			handler: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") },
			want:    fakeResponse{status: 200, fields: "Content-Type: text/plain; charset=utf-8\nContent-Length: 5\n"},
		},
		"no body allowed": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "3")
				w.WriteHeader(http.StatusNoContent)
				if _, err := io.WriteString(w, "abc"); err != http.ErrBodyNotAllowed {
					panic(err)
				}
			},
			want: fakeResponse{status: 204},
		},
		"more than declared": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "3")
				io.WriteString(w, "ab")
				if _, err := io.WriteString(w, "cd"); err != http.ErrContentLength {
					panic(err)
				}
				io.WriteString(w, "")
			},
			want: fakeResponse{status: 200, fields: "Content-Length: 3\nContent-Type: text/plain; charset=utf-8\n", body: "ab"},
		},
		"more than a ring": {
			handler: func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader(large)) },
			want:    fakeResponse{status: 200, fields: "Content-Type: text/plain; charset=utf-8\n", body: large},
		},
		"a large head": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X", large[:40000])
				io.WriteString(w, "body")
			},
			want: fakeResponse{status: 200, fields: "X: " + large[:40000] + "\nContent-Type: text/plain; charset=utf-8\n", body: "body"},
		},
		"too large a head": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X", large[:70000])
				io.WriteString(w, "body")
			},
			want: fakeResponse{status: 500, body: "body"},
		},
		"panic before": {
			handler: func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
			want:    fakeResponse{end: endAborted},
		},
		"panic after": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(201)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			},
			want: fakeResponse{status: 201, end: endAborted},
		},
		"goroutine ended": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(201)
				runtimeGoexit()
			},
			want: fakeResponse{end: endAborted},
		},
		"interim is not sent": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusCreated)
			},
			want: fakeResponse{status: 201},
		},
		"no hijack": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _, err := http.NewResponseController(w).Hijack()
				fmt.Fprint(w, errors.Is(err, http.ErrNotSupported))
			},
			want: fakeResponse{status: 200, fields: "Content-Type: text/plain; charset=utf-8\n", body: "true"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := serveFake(t, c.handler)
			if c.method == "" {
				c.method = "GET"
			}
			if c.want.end == 0 {
				c.want.end = endWhole
			}
			for range 3 {
				if got := r.ask(fakeRequest{method: c.method, target: "/"}); !reflect.DeepEqual(got, c.want) {
					t.Fatalf("%.300v\nnot %.300v", got, c.want)
				}
			}
		})
	}
}

func TestFlushSendsWhatThereIs(t *testing.T) {
	proceed := make(chan struct{})
	r := serveFake(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		<-proceed
		io.WriteString(w, "second")
	})
	r.queue(5, get("/"))
	if got := r.take(5); string(got) != "first" {
		t.Errorf("%q", got)
	}
	close(proceed)
	if got := r.response(5); got.body != "second" || got.end != endWhole {
		t.Errorf("%+v", got)
	}
}

func TestStreamedBodies(t *testing.T) {
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		count, err := io.Copy(w, request.Body)
		if err != nil {
			fmt.Fprint(w, "!", count, err)
		}
	})
	text := strings.Repeat("abcdefghijklmno\n", 20000)
	r.queue(7, fakeRequest{method: "PUT", target: "/", bodyKind: bodyStream, length: unknownLength})
	go r.stream(7, []byte(text), true)
	if got := r.response(7); got.body != text {
		t.Errorf("%d bytes, not %d", len(got.body), len(text))
	}
	// Cut short: an error, not an end.
	r.queue(7, fakeRequest{method: "PUT", target: "/", bodyKind: bodyStream, length: unknownLength})
	r.wait("the handler waits", func() bool {
		return r.kind(7) == kindBegun && atomic.LoadUint32(r.s.u32(r.s.slotAt(7)+atWorkerWaits))&waitsForData != 0
	})
	r.clientGoes(7)
	if got := r.response(7); got.end != endWhole && got.end != endAborted {
		t.Errorf("%+v", got)
	}
}

func TestSpooledBodiesAndRecords(t *testing.T) {
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		bytes, err := io.ReadAll(request.Body)
		fmt.Fprint(w, len(request.Header.Get("X")), len(bytes), err, strings.HasSuffix(string(bytes), "xy"))
	})
	got := r.ask(fakeRequest{method: "POST", target: "/", fields: [][2]string{{"X", strings.Repeat("x", 40000)}}, body: strings.Repeat("z", 9998) + "xy"})
	if got.body != "40000 10000 <nil> true" {
		t.Errorf("%q", got.body)
	}
}

func TestContextEndsWhenTheClientGoes(t *testing.T) {
	ended := make(chan error, 3)
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		derived, cancel := context.WithCancel(request.Context())
		defer cancel()
		notify := w.(http.CloseNotifier).CloseNotify()
		w.(http.Flusher).Flush()
		<-request.Context().Done()
		ended <- request.Context().Err()
		<-derived.Done()
		ended <- derived.Err()
		<-notify
		_, err := io.WriteString(w, "this has no reader")
		ended <- err
	})
	r.queue(2, get("/"))
	r.wait("the handler runs", func() bool { return atomic.LoadUint32(r.s.u32(r.s.slotAt(2)+atHeadPlace)) != 0 })
	r.clientGoes(2)
	for index := 0; index < 2; index++ {
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
	if err := <-ended; err == nil {
		t.Error("writing after the client has gone is no error")
	}
	r.response(2)
}

// The router tells in two steps, and a handler may write between them.
func TestContextEndsWhenAWriteFindsTheClientGoneFirst(t *testing.T) {
	flushed, ended := make(chan error), make(chan error)
	runs, hasGone := make(chan struct{}), make(chan struct{})
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		close(runs)
		<-hasGone
		flushed <- http.NewResponseController(w).Flush()
		<-request.Context().Done()
		<-w.(http.CloseNotifier).CloseNotify()
		ended <- request.Context().Err()
	})
	r.queue(2, get("/"))
	<-runs
	atomic.StoreUint32(r.s.u32(r.s.slotAt(2)+atClientGone), 1)
	close(hasGone)
	if err := <-flushed; err == nil {
		t.Error("flushing after the client has gone is no error")
	}
	r.clientGoes(2)
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	r.response(2)
}

func TestDeadlines(t *testing.T) {
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		controller := http.NewResponseController(w)
		controller.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := request.Body.Read(make([]byte, 1))
		controller.SetWriteDeadline(time.Now().Add(time.Millisecond))
		_, errWrite := w.Write(make([]byte, ringSize+1))
		controller.SetWriteDeadline(time.Time{})
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(errWrite, os.ErrDeadlineExceeded))
	})
	r.queue(2, fakeRequest{method: "PUT", target: "/", bodyKind: bodyStream, length: unknownLength})
	// The ring stays full until the deadline has passed.
	r.wait("the end of both waits", func() bool {
		return r.kind(2) == kindBegun && atomic.LoadUint64(r.s.u64(r.s.slotAt(2)+atResponseWritten)) == ringSize
	})
	r.wait("the handler waits for room again", func() bool {
		open := r.w.calls[2].Load()
		if open == nil {
			return false
		}
		open.mu.Lock()
		defer open.mu.Unlock()
		return open.response.limit.isUnset()
	})
	if got := r.response(2); !strings.HasSuffix(got.body, "true true") {
		t.Errorf("%.40q", got.body[ringSize:])
	}
}

// Handlers that block, more than there are processors: each gets its goroutine, and all are served at once.
func TestManyAtOnce(t *testing.T) {
	const count = 60
	arrived := make(chan struct{}, count)
	proceed := make(chan struct{})
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		arrived <- struct{}{}
		<-proceed
		io.WriteString(w, request.URL.Path)
	})
	for slot := uint32(0); slot < count; slot++ {
		r.queue(slot, get(fmt.Sprint("/", slot)))
	}
	for range count {
		<-arrived
	}
	close(proceed)
	for slot := uint32(0); slot < count; slot++ {
		if got := r.response(slot); got.body != fmt.Sprint("/", slot) {
			t.Errorf("%d: %+v", slot, got)
		}
	}
}

func TestABoundOnWhatIsOpen(t *testing.T) {
	var open, most atomic.Int64
	proceed := make(chan struct{})
	r := serveFakeWith(t, func(w http.ResponseWriter, request *http.Request) {
		now := open.Add(1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		<-proceed
		open.Add(-1)
	}, func(w *worker) { w.concurrency = 3 })
	for slot := uint32(0); slot < 20; slot++ {
		r.queue(slot, get("/"))
	}
	r.wait("as many as may be", func() bool { return open.Load() == 3 })
	r.wait("sleep", func() bool { return atomic.LoadUint32(r.s.u32(r.s.workerAt(1)+atWake)) == wakeEvent })
	if r.s.hasBit(idleBits, 1) {
		t.Error("a full worker calls itself idle")
	}
	go func() {
		for range 20 {
			proceed <- struct{}{}
		}
	}()
	for slot := uint32(0); slot < 20; slot++ {
		r.response(slot)
	}
	if most.Load() != 3 {
		t.Errorf("%d at once", most.Load())
	}
}

// One after the other, as fast as they can be asked: a lost wake-up would hang.
func TestNoWakeUpIsLost(t *testing.T) {
	r := serveFake(t, func(w http.ResponseWriter, request *http.Request) {
		io.WriteString(w, request.URL.RawQuery)
	})
	for number := range 4000 {
		if got := r.ask(get(fmt.Sprint("/?", number))); got.body != fmt.Sprint(number) {
			t.Fatalf("%d: %+v", number, got)
		}
	}
}

func TestALimitOfRequestsEndsTheWorker(t *testing.T) {
	r := serveFake(t, func(http.ResponseWriter, *http.Request) {})
	atomic.StoreUint64(r.s.u64(r.s.workerAt(1)+atRequestLimit), 2)
	r.ask(get("/"))
	r.ask(get("/"))
	r.queue(4, get("/"))
	<-r.done
	if r.kind(4) != kindQueued {
		t.Error("a third request was taken")
	}
}

// Bytes that a handler leaves behind must not reach the slot, which is another request's by then.
func TestAHandlerThatLeavesAGoroutine(t *testing.T) {
	late := make(chan http.ResponseWriter, 1)
	r := serveFake(t, func(w http.ResponseWriter, _ *http.Request) {
		select {
		case late <- w:
		default:
		}
	})
	r.ask(get("/"))
	w := <-late
	// As the race detector does not see that the response has ended.
	w.(*response).call.mu.Lock()
	w.(*response).call.mu.Unlock()
	if _, err := io.WriteString(w, "late"); err == nil {
		t.Error("writing after the end is no error")
	}
	if err := http.NewResponseController(w).Flush(); err == nil {
		t.Error("flushing after the end is no error")
	}
	if got := r.response(3); got.body != "" {
		t.Errorf("%+v", got)
	}
}

func runtimeGoexit() { runtime.Goexit() }

// A program routes by the rewritten path, RequestURI is what the client sent (issue 10).
func TestURLFollowsARewrite(t *testing.T) {
	for _, test := range []struct{ target, routed, query, path, raw string }{
		{"/a?b=c", "/a", "b=c", "/a", ""},
		{"/a%2fb", "/a/b", "", "/a/b", "/a%2fb"},
		{"/old%2f?b=c", "/new x", "b=c", "/new x", ""},
		{"/old?b=c", "/old", "url=/x&b=c", "/old", ""},
		{"*", "*", "", "*", ""},
	} {
		location := parseTarget("GET", test.target)
		follow(location, test.routed, test.query)
		if location.Path != test.path || location.RawPath != test.raw || location.RawQuery != test.query {
			t.Errorf("%q routed as %q: %q, %q, %q", test.target, test.routed, location.Path, location.RawPath, location.RawQuery)
		}
	}
}
