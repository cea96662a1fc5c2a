package unit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// call is one request being served: its slot, and what the handler sees of it.
//
// Nothing touches the slot after `ended`, which is why all that does holds `mu`: a handler may leave goroutines behind that
// go on writing.
type call struct {
	worker *worker
	slot   uint32
	ticket uint64
	at     uintptr
	record record
	// The record with its inline body, when it came through the spool file.
	inSpool []byte

	mu    sync.Mutex
	ended bool
	// The handler knows that its client has gone.
	toldGone bool
	// Where the head is, once it is written. The router sees it from the first publish on: a head that it saw before, by chance, would
	// go out without the length of the body, and would be all that the client gets should the process die.
	headPlace uint32
	// Bytes put in the response ring; those announced to the router; those it is known to have taken.
	written, signalled, consumed uint64
	// Bytes of the body that were read.
	position uint64
	// The goroutines that wait for data, and for room.
	data, room bell
	goneNotify chan bool
	socket     *socket

	context  requestContext
	body     body
	response response
}

// bell wakes all who wait. Under its call's lock.
type bell struct{ waiters chan struct{} }

func (b *bell) ring() {
	if b.waiters != nil {
		close(b.waiters)
		b.waiters = nil
	}
}

func (b *bell) wait() <-chan struct{} {
	if b.waiters == nil {
		b.waiters = make(chan struct{})
	}
	return b.waiters
}

var (
	errClientGone = net.ErrClosed
	errEnded      = errors.New("the handler has returned: the request is over")
)

// beginCall takes over a claimed slot; nil when there is nothing to serve and the slot has been given back.
func beginCall(w *worker, slot uint32, ticket uint64) *call {
	s := w.segment
	at := s.slotAt(slot)
	// The leftovers of an earlier request: the router looks at none of it before the state says begun.
	*s.u64(at + atResponseWritten) = 0
	*s.u64(at + atStreamConsumed) = 0
	*s.u32(at + atHeadPlace) = placeNone
	*s.u32(at + atEnd) = 0
	*s.u32(at + atInterimsLength) = 0
	*s.u32(at + atTrailersLength) = 0
	*s.u64(at + atBegun) = w.nowUs()
	if waits := s.u32(at + atWorkerWaits); atomic.LoadUint32(waits) != 0 {
		atomic.StoreUint32(waits, 0)
	}
	c := &call{worker: w, slot: slot, ticket: ticket, at: at}
	atomic.StoreUint32(s.u32(w.entry+atOpen), uint32(w.open.Add(1)))
	err := c.readRecord()
	if err != nil || atomic.LoadUint32(s.u32(at+atClientGone)) != 0 {
		c.end(endAborted)
		return nil
	}
	w.calls[slot].Store(c)
	c.setState(kindBegun)
	return c
}

func (c *call) readRecord() error {
	s := c.worker.segment
	length := *s.u32(c.at + atRequestLength)
	if *s.u32(c.at + atRequestPlace) == 0 {
		if length > requestSize {
			return errRecord
		}
		return c.record.parse(s.slice(c.at+requestOffset, int(length)))
	}
	memory := make([]byte, length)
	if err := c.readSpool(memory, *s.u64(c.at + atSpoolOffset)); err != nil {
		return err
	}
	c.inSpool = memory
	return c.record.parse(memory)
}

func (c *call) readSpool(target []byte, offset uint64) error {
	for len(target) > 0 {
		count, err := syscall.Pread(c.worker.spool, target, int64(offset))
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return os.NewSyscallError("reading the spool file", err)
		case count == 0:
			return io.ErrUnexpectedEOF
		default:
			target = target[count:]
			offset += uint64(count)
		}
	}
	return nil
}

func (c *call) setState(kind uint64) {
	atomic.StoreUint64(c.worker.segment.u64(c.at+atState), packState(kind, c.worker.id, c.ticket))
}

func (c *call) localAddress() net.Addr {
	return address{c.record.string(stringLocalAddress), c.record.localPort()}.netAddr()
}

// attend looks what the news is.
func (c *call) attend() {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	isNew := !c.toldGone && c.isGone()
	c.toldGone = c.toldGone || isNew
	c.data.ring()
	c.room.ring()
	notify, isTakenOver := c.goneNotify, c.socket != nil
	c.mu.Unlock()
	if isNew && !isTakenOver {
		c.context.cancel()
		if notify != nil {
			notify <- true
		}
	}
}

// isGone says whether the client has gone; attend tells the handler, soon if it has not yet. With the lock held.
func (c *call) isGone() bool {
	return atomic.LoadUint32(c.worker.segment.u32(c.at+atClientGone)) != 0
}

// freeRoom is how much fits the response ring. With the lock held.
func (c *call) freeRoom() int { return c.roomFor(1) }

// roomFor is freeRoom, for who can do nothing with less than so many bytes.
func (c *call) roomFor(wanted int) int {
	free := func() uint64 {
		if filled := c.written - c.consumed; filled <= ringSize {
			return ringSize - filled
		}
		return 0
	}
	if free() < uint64(wanted) {
		c.consumed = atomic.LoadUint64(c.worker.segment.u64(c.at + atResponseConsumed))
	}
	return int(free())
}

// put appends what fits. With the lock held.
func (c *call) put(bytes []byte) int {
	count := min(len(bytes), c.freeRoom())
	start := int(c.written % ringSize)
	ring := c.worker.segment.slice(c.at+ringOffset, ringSize)
	first := copy(ring[start:], bytes[:count])
	copy(ring, bytes[first:count])
	c.written += uint64(count)
	return count
}

// publish makes the head and the bytes in the ring the router's to read. With the lock held.
func (c *call) publish() {
	s := c.worker.segment
	atomic.StoreUint64(s.u64(c.at+atResponseWritten), c.written)
	atomic.StoreUint32(s.u32(c.at+atHeadPlace), c.headPlace)
}

// hasHead tells whether the head has been written. With the lock held.
func (c *call) hasHead() bool { return c.headPlace != placeNone }

// notify tells the router. With the lock held.
func (c *call) notify() {
	c.publish()
	c.signalled = c.written
	c.worker.complete(c.slot, *c.worker.segment.u32(c.at + atThread))
}

// await waits for news of a kind until there is some, or the time is up. With the lock held, which it gives up meanwhile. That the
// request is over, or the client gone, is news too, for the caller to find.
func (c *call) await(kind uint32, news *bell, limit *limit, hasNews func() bool) error {
	atomic.OrUint32(c.worker.segment.u32(c.at+atWorkerWaits), kind)
	fence()
	if hasNews() {
		return nil
	}
	isFirst := kind == waitsForData && c.position == 0 && c.socket == nil
	if isFirst || c.hasHead() && c.signalled != c.written {
		// For the first byte also to say that the body is wanted: the client may be waiting to be asked for it.
		c.notify()
		if hasNews() {
			return nil
		}
	}
	rung := news.wait()
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-rung:
		return nil
	case <-limit.passed():
		return os.ErrDeadlineExceeded
	}
}

// write puts all of it in the ring, waiting for room. The head may leave with it: placeHead is asked before. With the lock held.
func (c *call) write(bytes []byte, limit *limit, placeHead func()) (written int, err error) {
	for {
		if c.ended {
			return written, errEnded
		}
		if c.isGone() {
			return written, errClientGone
		}
		count := c.put(bytes)
		bytes = bytes[count:]
		written += count
		if c.written-c.signalled >= ringSize/2 {
			placeHead()
			c.notify()
		}
		if len(bytes) == 0 {
			return written, nil
		}
		err := c.await(waitsForRoom, &c.room, limit, func() bool {
			return c.freeRoom() > 0 || c.isGone()
		})
		if err != nil {
			return written, err
		}
	}
}

// readStream reads from the stream ring: at least one byte, or why not. With the lock held.
func (c *call) readStream(target []byte, limit *limit) (int, error) {
	s := c.worker.segment
	written := s.u64(c.at + atStreamWritten)
	finished := s.u32(c.at + atStreamFinished)
	for {
		if c.ended {
			return 0, errEnded
		}
		// In this order: what was written before the end is seen.
		isFinished := atomic.LoadUint32(finished) != 0
		amount := atomic.LoadUint64(written) - c.position
		if amount > 0 && amount <= streamSize {
			return c.takeStream(target[:min(uint64(len(target)), amount)]), nil
		}
		if isFinished {
			return 0, io.EOF
		}
		if c.isGone() {
			return 0, io.ErrUnexpectedEOF
		}
		err := c.await(waitsForData, &c.data, limit, func() bool {
			return atomic.LoadUint64(written) != c.position || atomic.LoadUint32(finished) != 0 || c.isGone()
		})
		if err != nil {
			return 0, err
		}
	}
}

func (c *call) takeStream(target []byte) int {
	s := c.worker.segment
	stream := s.slice(c.at+streamOffset, streamSize)
	first := copy(target, stream[c.position%streamSize:])
	copy(target[first:], stream)
	c.position += uint64(len(target))
	atomic.StoreUint64(s.u64(c.at+atStreamConsumed), c.position)
	fence()
	if waits := s.u32(c.at + atRouterWaits); atomic.LoadUint32(waits) != 0 && atomic.SwapUint32(waits, 0) != 0 {
		c.worker.complete(c.slot, *s.u32(c.at + atThread))
	}
	return len(target)
}

// end gives the slot back to the router. Goroutines that still wait are woken.
func (c *call) end(how uint32) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	s := c.worker.segment
	c.publish()
	atomic.StoreUint32(s.u32(c.at+atEnd), how)
	thread := *s.u32(c.at + atThread)
	c.worker.calls[c.slot].Store(nil)
	c.setState(kindDone)
	// From here on the slot is the router's.
	c.data.ring()
	c.room.ring()
	c.mu.Unlock()
	c.worker.complete(c.slot, thread)
	c.worker.callEnded()
}

// serve runs the handler.
func (c *call) serve() {
	request := c.newRequest()
	c.response.init(c, request)
	defer c.handlerDone()
	c.worker.handler.ServeHTTP(&c.response, request)
	c.response.finish()
}

// handlerDone ends what the handler left open: it has returned, panicked, or ended its goroutine.
func (c *call) handlerDone() {
	if !c.response.finished {
		reason := recover()
		logPanic(c, reason)
		c.end(endAborted)
		if c.socket != nil {
			c.socket.Close()
		}
	}
	c.context.cancel()
}

// limit is a moment after which waiting is over.
type limit struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{}
}

// passed is closed when the time is up.
func (l *limit) passed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

// set moves it; the zero time takes it away.
func (l *limit) set(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil && !l.timer.Stop() {
		<-l.done // It has fired, or is about to.
	}
	l.timer = nil
	isPassed := false
	select {
	case <-l.done:
		isPassed = true
	default:
	}
	if isPassed || l.done == nil {
		l.done = make(chan struct{})
	}
	if at.IsZero() {
		return
	}
	done := l.done
	if left := time.Until(at); left > 0 {
		l.timer = time.AfterFunc(left, func() { close(done) })
	} else {
		close(done)
	}
}

// monotonicUs reads the clock by a system call: once, at the start.
func monotonicUs() uint64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Sec)*1_000_000 + uint64(now.Nsec)/1000
}

var _ http.ResponseWriter = (*response)(nil)
