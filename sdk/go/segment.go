package unit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// The layout of a segment: spec/wire.md, 1.
const (
	wireMagic   = "TUTTIWIR"
	wireVersion = 4
	// The oldest version of a server that this one works with.
	wireOldest = 4

	maxSlots   = 65536
	maxWorkers = 4096
	maxThreads = 256

	headerLength  = 4096
	workerStride  = 256
	idleStride    = 32
	slotStride    = 180224
	requestOffset = 256
	requestSize   = 32512
	headOffset    = 32768
	headSize      = 16384
	ringOffset    = 49152
	ringSize      = 65536
	streamOffset  = 114688
	streamSize    = 65536
)

// Fields of the header.
const (
	atVersion          = 8
	atHeaderLength     = 12
	atTotalLength      = 16
	atSlots            = 24
	atWorkers          = 28
	atThreads          = 32
	atQueueCells       = 36
	atSlotStride       = 40
	atRequestCapacity  = 44
	atHeadCapacity     = 48
	atResponseCapacity = 52
	atStreamCapacity   = 56
	atMaxSearching     = 60
	atWorkerOffset     = 64
	atIdleOffset       = 72
	atQueueOffset      = 80
	atCompletionOffset = 88
	atSlotOffset       = 96
	atAttentionOffset  = 104
	atOldest           = 112
	atQueueHead        = 128
	atQueueTail        = 256
)

// Fields of a worker's entry.
const (
	atWake         = 0
	atQuit         = 128
	atRequestLimit = 136
	atReady        = 192
	atWakeMode     = 196
	atOpen         = 204
	atRequests     = 208
	atSince        = 216
	atLooks        = 224
)

// The values of atReady.
const (
	isReady   = 1
	isLeaving = 2
)

// Fields of a slot.
const (
	atState            = 0
	atResponseWritten  = 8
	atStreamConsumed   = 16
	atHeadPlace        = 24
	atHeadLength       = 28
	atHeadFields       = 32
	atStatus           = 36
	atEnd              = 40
	atTrailersLength   = 44
	atBegun            = 48
	atInterimsLength   = 56
	atThread           = 64
	atClientGone       = 68
	atResponseConsumed = 72
	atStreamWritten    = 80
	atStreamFinished   = 88
	atRouterWaits      = 92
	atRequestPlace     = 96
	atRequestLength    = 100
	atSpoolOffset      = 104
	atWorkerWaits      = 128
)

// The use of a slot: the first byte of its state.
const (
	kindQueued = 1
	kindTaken  = 2
	kindBegun  = 3
	kindDone   = 4

	ticketMask = 1<<40 - 1
)

const (
	placeNone  = 0
	placeHead  = 1
	placeRing  = 2
	endWhole   = 1
	endAborted = 2

	waitsForData = 2
	waitsForRoom = 4
)

func packState(kind uint64, worker uint32, ticket uint64) uint64 {
	return kind<<56 | uint64(worker)<<40 | ticket&ticketMask
}

// geometry is computed from three counts and never read from the segment again.
type geometry struct {
	slots, workers, threads uint32

	queueCells       uint32
	mapSummaries     uint32
	mapStride        uintptr
	workerOffset     uintptr
	idleOffset       uintptr
	queueOffset      uintptr
	completionOffset uintptr
	attentionOffset  uintptr
	slotOffset       uintptr
	totalLength      uintptr
}

func align(value, to uintptr) uintptr {
	return (value + to - 1) / to * to
}

func newGeometry(slots, workers, threads uint32) (geometry, error) {
	if slots < 1 || slots > maxSlots || workers < 1 || workers > maxWorkers || threads < 1 || threads > maxThreads {
		return geometry{}, fmt.Errorf("segment of %d slots, %d workers and %d threads is out of range", slots, workers, threads)
	}
	g := geometry{slots: slots, workers: workers, threads: threads}
	g.queueCells = 256
	for g.queueCells < slots*4 {
		g.queueCells *= 2
	}
	words := (slots + 63) / 64
	g.mapSummaries = (words + 63) / 64
	g.mapStride = align(8+8*uintptr(g.mapSummaries)+8*uintptr(words), 128)
	g.workerOffset = headerLength
	g.idleOffset = g.workerOffset + uintptr(workers)*workerStride
	g.queueOffset = align(g.idleOffset+uintptr((workers+63)/64)*idleStride, 128)
	g.completionOffset = align(g.queueOffset+uintptr(g.queueCells)*8, 128)
	g.attentionOffset = align(g.completionOffset+uintptr(threads)*g.mapStride, 128)
	g.slotOffset = align(g.attentionOffset+uintptr(workers)*g.mapStride, 4096)
	g.totalLength = g.slotOffset + uintptr(slots)*slotStride
	return g, nil
}

// segment is the memory shared with the router. Every word is reached by an offset that was computed here, within bounds.
type segment struct {
	geometry
	base unsafe.Pointer
}

// meets says whether this program works with a server of these versions of the wire, and the server with it.
func meets(oldest, newest uint32) bool { return newest >= wireOldest && oldest <= wireVersion }

type versionError struct{ server string }

func (e *versionError) Error() string {
	return fmt.Sprintf("the server works with versions %s of the wire, this program with %d-%d", e.server, wireOldest, wireVersion)
}

// openSegment maps the whole file and refuses what is no segment, or of a server with other versions.
func openSegment(fd int) (*segment, error) {
	var status syscall.Stat_t
	if err := syscall.Fstat(fd, &status); err != nil {
		return nil, err
	}
	if status.Size < headerLength {
		return nil, errors.New("the segment is shorter than its header")
	}
	memory, err := syscall.Mmap(fd, 0, int(status.Size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	s := &segment{base: unsafe.Pointer(unsafe.SliceData(memory))}
	if string(memory[:8]) != wireMagic {
		return nil, errors.New("the file is no segment")
	}
	word := func(at uintptr) uint32 { return atomic.LoadUint32(s.u32(at)) }
	if oldest, newest := word(atOldest), word(atVersion); !meets(oldest, newest) {
		return nil, &versionError{fmt.Sprintf("%d-%d", oldest, newest)}
	}
	s.geometry, err = newGeometry(word(atSlots), word(atWorkers), word(atThreads))
	if err != nil {
		return nil, err
	}
	g := &s.geometry
	wrong := uint64(g.totalLength) != uint64(status.Size) || word(atHeaderLength) != headerLength ||
		word(atQueueCells) != g.queueCells || word(atSlotStride) != slotStride || word(atRequestCapacity) != requestSize ||
		word(atHeadCapacity) != headSize || word(atResponseCapacity) != ringSize || word(atStreamCapacity) != streamSize
	for _, offset := range []struct{ at, is uintptr }{
		{atTotalLength, g.totalLength}, {atWorkerOffset, g.workerOffset}, {atIdleOffset, g.idleOffset},
		{atQueueOffset, g.queueOffset}, {atCompletionOffset, g.completionOffset},
		{atAttentionOffset, g.attentionOffset}, {atSlotOffset, g.slotOffset},
	} {
		wrong = wrong || atomic.LoadUint64(s.u64(offset.at)) != uint64(offset.is)
	}
	if wrong {
		return nil, errors.New("the segment's header contradicts itself")
	}
	return s, nil
}

func (s *segment) u32(at uintptr) *uint32 { return (*uint32)(unsafe.Add(s.base, at)) }
func (s *segment) u64(at uintptr) *uint64 { return (*uint64)(unsafe.Add(s.base, at)) }

// slice is the memory itself: the other side may change it at any time where the protocol says so.
func (s *segment) slice(at uintptr, length int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(s.base, at)), length)
}

func (s *segment) workerAt(worker uint32) uintptr {
	return s.workerOffset + uintptr(worker)*workerStride
}

func (s *segment) slotAt(slot uint32) uintptr {
	return s.slotOffset + uintptr(slot)*slotStride
}

func (s *segment) maxSearching() uint32 { return atomic.LoadUint32(s.u32(atMaxSearching)) }

// fence orders what this goroutine has written before what it reads next, for the other side too. All of Go's atomic
// operations are sequentially consistent among themselves, but only those of one process: a read-modify-write is a full
// barrier on every machine.
func fence() {
	var word uint32
	atomic.AddUint32(&word, 1)
}
