package unit

import (
	"log"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// worker is this process's place in the segment.
//
// Its goroutines take turns: one leads, that is, looks for work and sleeps when there is none. When it has claimed a request it
// gives up the lead, sees to it that another goroutine will take it over, and serves. A handler that does not block
// is back before that other has run, and leads again: many requests without a switch. One that blocks is no hindrance.
type worker struct {
	segment      *segment
	id           uint32
	entry        uintptr
	threadEvents []int
	workerEvents []int
	spool        int
	server       *http.Server
	handler      http.Handler
	event        syscall.RawConn
	began        time.Time
	beganUs      uint64
	concurrency  int64

	// By slot: the calls that attention bits belong to.
	calls []atomic.Pointer[call]
	open  atomic.Int64
	// Somebody leads.
	led atomic.Bool
	// A goroutine has been started, or woken, to take over the lead.
	succession atomic.Bool
	// The leader sleeps until an exchange ends.
	awaitsEnd atomic.Bool
	// A signal asks us to leave.
	told atomic.Bool
	// Nothing more is taken: the router or a signal says so, or the limit of requests has been reached.
	leaving  atomic.Bool
	finished chan struct{}

	idle parked

	// The leader's.
	requests uint64
	looks    uint64
	isShort  bool
	pace     pace
	found    *call
	asleep   bool
	turn     func(uintptr) bool
}

// Requests that a process has at once where the configuration says nothing: as many goroutines, and slots of the segment.
const defaultConcurrency = 512

// A handler that never blocks lets others run after so many requests.
const inOneGo = 32

// joinSegment takes the place that was inherited.
func joinSegment(in *inheritance, segment *segment, start *startDocument, server *http.Server) (*worker, error) {
	threads, workers, err := in.takeEvents(segment, start)
	if err != nil {
		return nil, err
	}
	w, err := newWorker(segment, in.worker, threads, workers, server)
	if err != nil {
		return nil, err
	}
	w.spool = in.spool
	if start.Concurrency > 0 {
		w.concurrency = int64(start.Concurrency)
	}
	return w, nil
}

func newWorker(segment *segment, id uint32, threads, workers []int, server *http.Server) (*worker, error) {
	w := &worker{
		segment:      segment,
		id:           id,
		entry:        segment.workerAt(id),
		threadEvents: threads,
		workerEvents: workers,
		spool:        -1,
		server:       server,
		handler:      server.Handler,
		concurrency:  defaultConcurrency,
		calls:        make([]atomic.Pointer[call], segment.slots),
		finished:     make(chan struct{}),
		began:        time.Now(),
		beganUs:      monotonicUs(),
	}
	if id >= segment.workers || int(id) >= len(workers) || uint32(len(threads)) != segment.threads {
		return nil, errWorkerNumber
	}
	if w.handler == nil {
		w.handler = http.DefaultServeMux
	}
	event, err := os.NewFile(uintptr(workers[id]), "tutti-event").SyscallConn()
	if err != nil {
		return nil, err
	}
	w.event = event
	w.turn = w.takeTurn
	return w, nil
}

// nowMs is CLOCK_MONOTONIC in milliseconds, which this runtime reads without a system call.
func (w *worker) nowMs() uint64 { return w.nowUs() / 1000 }

// nowUs is the same in microseconds.
func (w *worker) nowUs() uint64 { return w.beganUs + uint64(time.Since(w.began)/time.Microsecond) }

// ready says that requests are taken from now on.
func (w *worker) ready() {
	s := w.segment
	const eventLoop = 1
	atomic.StoreUint32(s.u32(w.entry+atWakeMode), eventLoop)
	*s.u64(w.entry + atSince) = w.nowMs()
	atomic.StoreUint32(s.u32(w.entry+atReady), isReady)
}

// leave stops taking requests; run returns when those begun have ended.
func (w *worker) leave() {
	w.told.Store(true)
	w.notify(w.id)
}

// run serves until told to leave.
func (w *worker) run() {
	go w.work()
	<-w.finished
}

func (w *worker) work() {
	for {
		if w.led.CompareAndSwap(false, true) {
			for count := 1; ; count++ {
				c := w.next()
				if c == nil {
					w.retire()
					close(w.finished)
					return // Keeping the lead: no worker looks for work any more.
				}
				w.led.Store(false)
				w.appointSuccessor()
				c.serve()
				if count%inOneGo == 0 {
					runtime.Gosched()
				}
				if !w.led.CompareAndSwap(false, true) {
					break
				}
			}
		}
		if !w.idle.park() {
			return
		}
		w.succession.Store(false)
	}
}

// appointSuccessor makes sure that a goroutine will look whether anybody leads.
func (w *worker) appointSuccessor() {
	if w.succession.CompareAndSwap(false, true) && !w.idle.wake() {
		go func() {
			w.succession.Store(false)
			w.work()
		}()
	}
}

// next gives the leader a request; nil when it is time to leave and all have ended.
func (w *worker) next() *call {
	if c := w.look(); c != nil {
		return c
	}
	w.found = nil
	if err := w.event.Read(w.turn); err != nil {
		log.Printf("tutti: waiting for requests: %v", err)
		os.Exit(1)
	}
	return w.found
}

// takeTurn is called when the leader wants to sleep, and whenever its event is written; true ends the wait. The event is
// edge-triggered here; it is read only so that it never fills.
func (w *worker) takeTurn(uintptr) bool {
	for {
		if w.asleep {
			w.asleep = false
			w.wakeUp()
		}
		w.found = w.look()
		if w.found != nil || w.isDone() {
			return true
		}
		if w.prepareToSleep() {
			w.asleep = true
			return false
		}
	}
}

func (w *worker) isToldToLeave() bool {
	return w.told.Load() || atomic.LoadUint32(w.segment.u32(w.entry+atQuit)) != 0
}

func (w *worker) isDone() bool { return w.leaving.Load() && w.open.Load() == 0 }

func (w *worker) isFull() bool { return w.open.Load() >= w.concurrency }

func (w *worker) mustLeave() bool {
	if !w.leaving.Load() {
		limit := atomic.LoadUint64(w.segment.u64(w.entry + atRequestLimit))
		isSpent := limit != 0 && w.requests >= limit
		if !isSpent && !w.isToldToLeave() {
			return false
		}
		w.leaving.Store(true)
		// The router starts another process if this one does not end soon.
		atomic.StoreUint32(w.segment.u32(w.entry+atReady), isLeaving)
	}
	return true
}

// look passes on news and claims one request.
func (w *worker) look() *call {
	s := w.segment
	for {
		w.looks++
		*s.u64(w.entry + atLooks) = w.looks
		if isShort, ok := w.pace.finish(); ok {
			w.isShort = isShort
		}
		s.drain(s.attention(w.id), w.attend)
		if w.mustLeave() || w.isFull() || w.isSurplus() {
			return nil
		}
		slot, ticket, ok := s.claim(w.id)
		if !ok {
			return nil
		}
		w.settle()
		w.requests++
		*s.u64(w.entry + atRequests) = w.requests
		*s.u64(w.entry + atSince) = w.nowMs()
		if c := beginCall(w, slot, ticket); c != nil {
			w.pace.start()
			return c
		}
	}
}

func (w *worker) attend(slot uint32) {
	if slot < w.segment.slots {
		if c := w.calls[slot].Load(); c != nil {
			c.attend()
		}
	}
}

// isSurplus says whether enough others are soon back at the queue, so that we had better sleep, whatever is in it.
func (w *worker) isSurplus() bool {
	s := w.segment
	return w.isShort && s.hasBit(briskBits, w.id) && !s.hasBit(searchingBits, w.id) && s.hasEnoughBrisk(w.id)
}

// settle tells wakers what we are while we serve. What they left to us before, and we cannot be relied on for any more,
// somebody else must do.
func (w *worker) settle() {
	s := w.segment
	changed := s.clearBit(searchingBits, w.id)
	switch wasBrisk := s.hasBit(briskBits, w.id); {
	case w.isShort && !wasBrisk:
		s.setBit(briskBits, w.id)
	case !w.isShort && wasBrisk:
		s.clearBit(briskBits, w.id)
		changed = true
	}
	if changed {
		w.passOn()
	}
}

// prepareToSleep is false when there is something to do after all.
func (w *worker) prepareToSleep() bool {
	s := w.segment
	isSurplus := w.isSurplus()
	*s.u64(w.entry + atSince) = w.nowMs()
	wake := s.u32(w.entry + atWake)
	atomic.SwapUint32(wake, wakeEvent)
	wasSearching := s.clearBit(searchingBits, w.id)
	s.clearBit(briskBits, w.id)
	leaving := w.leaving.Load()
	isIdle := !leaving && !w.isFull()
	if isIdle {
		s.setBit(idleBits, w.id)
	} else {
		w.awaitsEnd.Store(true)
	}
	fence()
	stay := s.isMarked(s.attention(w.id))
	stay = stay || !leaving && w.isToldToLeave()
	if isIdle {
		covered := isSurplus && s.hasEnoughBrisk(s.workers)
		stay = stay || !covered && s.hasWork()
	} else {
		stay = stay || w.isDone() || !leaving && !w.isFull()
	}
	if stay {
		w.wakeUp()
		return false
	}
	if wasSearching && !isIdle && s.hasWork() {
		w.wakeOne()
	}
	return true
}

func (w *worker) wakeUp() {
	s := w.segment
	w.awaitsEnd.Store(false)
	if atomic.SwapUint32(s.u32(w.entry+atWake), wakeAwake) == wakeNotified {
		clearEvent(w.workerEvents[w.id])
	}
	s.clearBit(idleBits, w.id)
}

// retire takes the worker out of the game.
func (w *worker) retire() {
	s := w.segment
	atomic.StoreUint32(s.u32(w.entry+atReady), isLeaving)
	s.clearBit(idleBits, w.id)
	s.clearBit(briskBits, w.id)
	s.clearBit(searchingBits, w.id)
	w.passOn()
}

// complete tells the router's thread that owns a slot that something happened in it.
func (w *worker) complete(slot, thread uint32) {
	s := w.segment
	if thread >= s.threads {
		return
	}
	at := s.completions(thread)
	s.mark(at, slot)
	fence()
	flag := s.u32(at)
	if atomic.LoadUint32(flag) != 0 && atomic.SwapUint32(flag, 0) != 0 {
		ring(w.threadEvents[thread])
	}
}

func (w *worker) callEnded() {
	open := w.open.Add(-1)
	atomic.StoreUint32(w.segment.u32(w.entry+atOpen), uint32(open))
	if w.awaitsEnd.Load() && w.awaitsEnd.Swap(false) {
		w.notify(w.id)
	}
}

// pace is how long requests take, from samples.
type pace struct {
	claims  uint32
	started time.Time
	average time.Duration
	known   bool
}

const (
	pacedClaims = 8
	// A single long one, such as a time slice lost to another process, must not make all look long.
	longestPace = 4 * time.Millisecond
	// Up to here a further worker on the same cores cannot help.
	shortPace = time.Millisecond
)

func (p *pace) start() {
	if p.claims%pacedClaims == 0 {
		p.started = time.Now()
	}
	p.claims++
}

func (p *pace) finish() (isShort, ok bool) {
	if p.started.IsZero() {
		return false, false
	}
	took := min(time.Since(p.started), longestPace)
	p.started = time.Time{}
	if p.known {
		took = (p.average*3 + took) / 4
	}
	p.average, p.known = took, true
	return took < shortPace, true
}

// parked are goroutines without work, warm: their stacks have grown to what handlers need.
type parked struct {
	mu      sync.Mutex
	waiting []chan struct{}
	spare   []chan struct{}
}

// Goroutines beyond these end: they are cheap to start, but their stacks are not to keep.
const mostParked = 256

func (p *parked) park() bool {
	p.mu.Lock()
	if len(p.waiting) >= mostParked {
		p.mu.Unlock()
		return false
	}
	var signal chan struct{}
	if last := len(p.spare) - 1; last >= 0 {
		signal, p.spare = p.spare[last], p.spare[:last]
	} else {
		signal = make(chan struct{}, 1)
	}
	p.waiting = append(p.waiting, signal)
	p.mu.Unlock()
	<-signal
	p.mu.Lock()
	p.spare = append(p.spare, signal)
	p.mu.Unlock()
	return true
}

// wake lets the goroutine go on that was parked last.
func (p *parked) wake() bool {
	p.mu.Lock()
	last := len(p.waiting) - 1
	if last < 0 {
		p.mu.Unlock()
		return false
	}
	signal := p.waiting[last]
	p.waiting = p.waiting[:last]
	p.mu.Unlock()
	signal <- struct{}{}
	return true
}
