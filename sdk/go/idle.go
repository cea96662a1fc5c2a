package unit

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Which workers sleep, and how they are woken (spec/wire.md, 4).

const (
	wakeAwake    = 0
	wakeNotified = 1
	wakeFutex    = 2
	wakeEvent    = 3

	// Awake workers with short requests, for each that may search at once.
	briskPerSearcher = 2
)

// Words of an idle group.
const (
	idleBits      = 0
	searchingBits = 8
	briskBits     = 16
)

func (s *segment) idleWord(kind uintptr, group uint32) *uint64 {
	return s.u64(s.idleOffset + uintptr(group)*idleStride + kind)
}

func (s *segment) bit(kind uintptr, worker uint32) (*uint64, uint64) {
	return s.idleWord(kind, worker/64), 1 << (worker % 64)
}

func (s *segment) setBit(kind uintptr, worker uint32) {
	word, bit := s.bit(kind, worker)
	atomic.OrUint64(word, bit)
}

// clearBit says whether it was set.
func (s *segment) clearBit(kind uintptr, worker uint32) bool {
	word, bit := s.bit(kind, worker)
	if atomic.LoadUint64(word)&bit == 0 {
		return false
	}
	return atomic.AndUint64(word, ^bit)&bit != 0
}

func (s *segment) hasBit(kind uintptr, worker uint32) bool {
	word, bit := s.bit(kind, worker)
	return atomic.LoadUint64(word)&bit != 0
}

func (s *segment) groups() uint32 { return (s.workers + 63) / 64 }

// count adds up the bits below a worker's; all of them for s.workers.
func (s *segment) count(kind uintptr, below uint32) (count uint32) {
	for group := uint32(0); group < s.groups() && group*64 < below; group++ {
		word := atomic.LoadUint64(s.idleWord(kind, group))
		if rest := below - group*64; rest < 64 {
			word &= 1<<rest - 1
		}
		count += uint32(bits.OnesCount64(word))
	}
	return count
}

func (s *segment) hasEnoughBrisk(below uint32) bool {
	return uint64(s.count(briskBits, below)) >= briskPerSearcher*uint64(s.maxSearching())
}

// takeLowest takes the lowest sleeping worker out of the map.
func (s *segment) takeLowest() (worker uint32, ok bool) {
	for group := uint32(0); group < s.groups(); group++ {
		place := s.idleWord(idleBits, group)
		for word := atomic.LoadUint64(place); word != 0; {
			bit := word & -word
			before := atomic.AndUint64(place, ^bit)
			if before&bit != 0 {
				return group*64 + uint32(bits.TrailingZeros64(bit)), true
			}
			word = before &^ bit
		}
	}
	return 0, false
}

// wakeOne wakes a sleeping worker for what is queued, unless enough are awake and will look. The caller has fenced.
func (w *worker) wakeOne() {
	s := w.segment
	if s.count(searchingBits, s.workers) >= s.maxSearching() || s.hasEnoughBrisk(s.workers) {
		return
	}
	for {
		other, ok := s.takeLowest()
		if !ok {
			return
		}
		if other < s.workers { // Bits without a worker are a corruption, cleared on the way.
			s.setBit(searchingBits, other)
			w.notify(other)
			return
		}
	}
}

// passOn is called by a worker that has cleared a bit that wakers relied on: if there is work, another worker must look.
func (w *worker) passOn() {
	fence()
	if w.segment.hasWork() {
		w.wakeOne()
	}
}

func (w *worker) notify(other uint32) {
	word := w.segment.u32(w.segment.workerAt(other) + atWake)
	switch atomic.SwapUint32(word, wakeNotified) {
	case wakeFutex:
		const futexWake = 1
		syscall.RawSyscall(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
	case wakeEvent:
		if int(other) < len(w.workerEvents) {
			ring(w.workerEvents[other])
		}
	}
}

var one = func() (bytes [8]byte) {
	binary.NativeEndian.PutUint64(bytes[:], 1)
	return bytes
}()

// clearEvent takes what was written to an event, which never waits either.
func clearEvent(event int) {
	var bytes [512]byte
	syscall.RawSyscall(syscall.SYS_READ, uintptr(event), uintptr(unsafe.Pointer(&bytes)), uintptr(len(bytes)))
}

// ring writes eight bytes to an event. It is non-blocking, so the call never waits: the scheduler need not hear of it.
func ring(event int) {
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(event), uintptr(unsafe.Pointer(&one)), 8)
}
