package unit

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// fakeRouter is the other side of a segment, as far as tests of a worker need one. One request after the other is queued by
// the test itself; the wake-ups are real.
type fakeRouter struct {
	t       *testing.T
	s       *segment
	w       *worker
	threads []int
	workers []int
	next    uint64
	done    chan struct{}
}

func newMemfd(t testing.TB, size int64) int {
	t.Helper()
	file, err := os.CreateTemp("/dev/shm", "tutti-test-")
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(file.Name())
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	return fd
}

func newEvent(t testing.TB) int {
	t.Helper()
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	return int(fd)
}

func writeHeader(fd int, g geometry) error {
	memory, err := syscall.Mmap(fd, 0, int(g.totalLength), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	s := &segment{g, unsafe.Pointer(unsafe.SliceData(memory))}
	for at, value := range map[uintptr]uint32{
		atVersion: wireVersion, atOldest: wireOldest, atHeaderLength: headerLength, atSlots: g.slots, atWorkers: g.workers, atThreads: g.threads,
		atQueueCells: g.queueCells, atSlotStride: slotStride, atRequestCapacity: requestSize, atHeadCapacity: headSize,
		atResponseCapacity: ringSize, atStreamCapacity: streamSize, atMaxSearching: 2,
	} {
		*s.u32(at) = value
	}
	for at, value := range map[uintptr]uintptr{
		atTotalLength: g.totalLength, atWorkerOffset: g.workerOffset, atIdleOffset: g.idleOffset, atQueueOffset: g.queueOffset,
		atCompletionOffset: g.completionOffset, atAttentionOffset: g.attentionOffset, atSlotOffset: g.slotOffset,
		atQueueHead: 1, atQueueTail: 1,
	} {
		*s.u64(at) = uint64(value)
	}
	copy(memory, wireMagic)
	return syscall.Munmap(memory)
}

// serveFake runs a worker, number 1 of 2, in this process.
func serveFake(t *testing.T, handler http.HandlerFunc) *fakeRouter {
	t.Helper()
	return serveFakeWith(t, handler, func(*worker) {})
}

func serveFakeWith(t *testing.T, handler http.HandlerFunc, configure func(*worker)) *fakeRouter {
	t.Helper()
	g, err := newGeometry(70, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	fd := newMemfd(t, int64(g.totalLength))
	if err := writeHeader(fd, g); err != nil {
		t.Fatal(err)
	}
	s, err := openSegment(fd)
	if err != nil {
		t.Fatal(err)
	}
	r := &fakeRouter{t: t, s: s, next: 1, done: make(chan struct{})}
	r.threads = []int{newEvent(t)}
	r.workers = []int{newEvent(t), newEvent(t)}
	r.w, err = newWorker(s, 1, r.threads, r.workers, &http.Server{Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	r.w.spool = newMemfd(t, 1<<20)
	configure(r.w)
	r.w.ready()
	go func() {
		r.w.run()
		close(r.done)
	}()
	t.Cleanup(func() {
		r.quit()
		r.wait("the worker has left", func() bool {
			select {
			case <-r.done:
				return true
			default:
				return false
			}
		})
	})
	return r
}

func (r *fakeRouter) quit() {
	atomic.StoreUint32(r.s.u32(r.s.workerAt(1)+atQuit), 1)
	fence()
	r.s.clearBit(idleBits, 1)
	r.notify()
}

func (r *fakeRouter) notify() {
	if atomic.SwapUint32(r.s.u32(r.s.workerAt(1)+atWake), wakeNotified) == wakeEvent {
		ring(r.workers[1])
	}
}

func (r *fakeRouter) wait(what string, holds func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within 20 seconds: %s", what)
		}
	}
}

// isUnset says that a limit was set and taken away again.
func (l *limit) isUnset() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done != nil && l.timer == nil
}

type fakeRequest struct {
	method, target string
	fields         [][2]string
	body           string
	bodyKind       byte
	length         uint64
	webSocket      bool
}

func (q *fakeRequest) encode() []byte {
	record := make([]byte, recordFixed+len(q.fields)*recordFieldSize)
	place := func(text string) uint32 {
		at := len(record)
		record = append(append(record, text...), 0)
		return uint32(at)
	}
	sent, query, _ := strings.Cut(q.target, "?")
	// The router sends the path decoded.
	path, err := url.PathUnescape(sent)
	if err != nil {
		path = sent
	}
	for index, text := range []string{q.method, q.target, path, query, "http", "192.0.2.1", "192.0.2.2", "example.org", "", ""} {
		binary.NativeEndian.PutUint32(record[56+index*8+4:], uint32(len(text)))
		at := place(text)
		binary.NativeEndian.PutUint32(record[56+index*8:], at)
	}
	for index, field := range q.fields {
		at := recordFixed + index*recordFieldSize
		binary.NativeEndian.PutUint32(record[at+4:], uint32(len(field[0])))
		binary.NativeEndian.PutUint32(record[at+8:], uint32(len(field[1])))
		offset := place(field[0])
		place(field[1])
		binary.NativeEndian.PutUint32(record[at:], offset)
	}
	kind, length := q.bodyKind, q.length
	if q.body != "" && kind == bodyNone {
		kind, length = bodyInline, uint64(len(q.body))
		binary.NativeEndian.PutUint64(record[24:], uint64(len(record)))
		record = append(record, q.body...)
	}
	binary.NativeEndian.PutUint32(record, uint32(len(record)))
	binary.NativeEndian.PutUint32(record[4:], uint32(len(q.fields)))
	record[8], record[10] = 1, kind
	if q.webSocket {
		record[11] = 1
	}
	binary.NativeEndian.PutUint16(record[12:], 50000)
	binary.NativeEndian.PutUint16(record[14:], 80)
	binary.NativeEndian.PutUint64(record[16:], length)
	binary.NativeEndian.PutUint64(record[32:], length)
	return record
}

// queue submits a request in a slot and wakes the worker if it sleeps.
func (r *fakeRouter) queue(slot uint32, request fakeRequest) { r.queueRecord(slot, request.encode()) }

func (r *fakeRouter) queueRecord(slot uint32, record []byte) {
	at := r.s.slotAt(slot)
	if len(record) > requestSize {
		if _, err := syscall.Pwrite(r.w.spool, record, 4096); err != nil {
			r.t.Fatal(err)
		}
		*r.s.u32(at + atRequestPlace) = 1
		*r.s.u64(at + atSpoolOffset) = 4096
	} else {
		copy(r.s.slice(at+requestOffset, requestSize), record)
		*r.s.u32(at + atRequestPlace) = 0
	}
	*r.s.u32(at + atRequestLength) = uint32(len(record))
	*r.s.u32(at + atThread) = 0
	*r.s.u64(at + atResponseConsumed) = 0
	*r.s.u64(at + atStreamWritten) = 0
	*r.s.u32(at + atStreamFinished) = 0
	*r.s.u32(at + atRouterWaits) = 0
	atomic.StoreUint32(r.s.u32(at+atClientGone), 0)
	atomic.StoreUint64(r.s.u64(at+atState), packState(kindQueued, 0, r.next))
	atomic.StoreUint64(r.s.cell(r.next), r.next&ticketMask<<24|uint64(slot))
	r.next++
	atomic.StoreUint64(r.s.u64(atQueueTail), r.next)
	fence()
	if r.s.clearBit(idleBits, 1) {
		r.s.setBit(searchingBits, 1)
		r.notify()
	}
}

func (r *fakeRouter) giveAttention(slot uint32) {
	r.s.mark(r.s.attention(1), slot)
	fence()
	if atomic.LoadUint32(r.s.u32(r.s.workerAt(1)+atWake)) >= wakeFutex {
		r.notify()
	}
}

func (r *fakeRouter) tell(slot, bit uint32) {
	fence()
	waits := r.s.u32(r.s.slotAt(slot) + atWorkerWaits)
	if atomic.LoadUint32(waits)&bit != 0 {
		atomic.AndUint32(waits, ^bit)
		r.giveAttention(slot)
	}
}

func (r *fakeRouter) clientGoes(slot uint32) {
	at := r.s.slotAt(slot)
	atomic.StoreUint32(r.s.u32(at+atClientGone), 1)
	atomic.SwapUint32(r.s.u32(at+atWorkerWaits), 0)
	r.giveAttention(slot)
}

// stream gives bytes of a body.
func (r *fakeRouter) stream(slot uint32, bytes []byte, isEnd bool) {
	r.t.Helper()
	at := r.s.slotAt(slot)
	written := *r.s.u64(at + atStreamWritten)
	for len(bytes) > 0 {
		var room uint64
		r.wait("room in the stream ring", func() bool {
			room = streamSize - (written - atomic.LoadUint64(r.s.u64(at+atStreamConsumed)))
			return room > 0
		})
		count := min(int(room), len(bytes))
		ring := r.s.slice(at+streamOffset, streamSize)
		first := copy(ring[written%streamSize:], bytes[:count])
		copy(ring, bytes[first:count])
		bytes = bytes[count:]
		written += uint64(count)
		atomic.StoreUint64(r.s.u64(at+atStreamWritten), written)
		r.tell(slot, waitsForData)
	}
	if isEnd {
		atomic.StoreUint32(r.s.u32(at+atStreamFinished), 1)
		r.tell(slot, waitsForData)
	}
}

func (r *fakeRouter) kind(slot uint32) uint64 {
	return atomic.LoadUint64(r.s.u64(r.s.slotAt(slot)+atState)) >> 56
}

// take waits for bytes in the response ring and consumes them.
func (r *fakeRouter) take(slot uint32) []byte {
	r.t.Helper()
	at := r.s.slotAt(slot)
	consumed := *r.s.u64(at + atResponseConsumed)
	var written uint64
	r.wait("bytes of the response", func() bool {
		// The words in the slot before it is begun are left over from another request.
		kind := r.kind(slot)
		if kind != kindBegun && kind != kindDone {
			return false
		}
		isDone := kind == kindDone
		written = atomic.LoadUint64(r.s.u64(at + atResponseWritten))
		return written > consumed && atomic.LoadUint32(r.s.u32(at+atHeadPlace)) != 0 || isDone
	})
	bytes := make([]byte, 0, written-consumed)
	ring := r.s.slice(at+ringOffset, ringSize)
	for ; consumed < written; consumed++ {
		bytes = append(bytes, ring[consumed%ringSize])
	}
	atomic.StoreUint64(r.s.u64(at+atResponseConsumed), consumed)
	r.tell(slot, waitsForRoom)
	return bytes
}

type fakeResponse struct {
	status int
	fields string
	body   string
	end    uint32
}

// response takes a whole response.
func (r *fakeRouter) response(slot uint32) fakeResponse {
	r.t.Helper()
	at := r.s.slotAt(slot)
	var body strings.Builder
	for r.kind(slot) != kindDone {
		body.Write(r.take(slot))
	}
	body.Write(r.take(slot))
	result := fakeResponse{end: atomic.LoadUint32(r.s.u32(at + atEnd)), body: body.String()}
	place := *r.s.u32(at + atHeadPlace)
	if place == placeNone {
		return result
	}
	length := int(*r.s.u32(at + atHeadLength))
	head := append([]byte(nil), r.s.slice(at+headOffset, headSize)[:min(length, headSize)]...)
	if place == placeRing {
		head = []byte(result.body[:length])
		result.body = result.body[length:]
	}
	result.status = int(*r.s.u32(at + atStatus))
	count := 0
	for ; len(head) > 0; count++ {
		name, value := int(binary.NativeEndian.Uint16(head)), int(binary.NativeEndian.Uint32(head[2:]))
		result.fields += fmt.Sprintf("%s: %s\n", head[6:6+name], head[6+name:6+name+value])
		head = head[6+name+value:]
	}
	if count != int(*r.s.u32(at + atHeadFields)) {
		r.t.Errorf("head of %d fields says it has %d", count, *r.s.u32(at + atHeadFields))
	}
	return result
}

func (r *fakeRouter) ask(request fakeRequest) fakeResponse {
	r.t.Helper()
	r.queue(3, request)
	return r.response(3)
}

func get(target string) fakeRequest { return fakeRequest{method: "GET", target: target} }
