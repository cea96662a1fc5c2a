package unit

import "sync/atomic"

// The work queue (spec/wire.md, 3): cells are hints, a slot's state decides.

func isBefore(a, b uint64) bool { return int64(b-a) > 0 }

func (s *segment) cell(position uint64) *uint64 {
	return s.u64(s.queueOffset + uintptr(position&uint64(s.queueCells-1))*8)
}

// hasWork says whether something may be queued. After the caller's own fence it cannot miss a published request.
func (s *segment) hasWork() bool {
	head := atomic.LoadUint64(s.u64(atQueueHead))
	return isBefore(head, atomic.LoadUint64(s.u64(atQueueTail)))
}

// claim takes the oldest live request for a worker.
func (s *segment) claim(worker uint32) (slot uint32, ticket uint64, ok bool) {
	headWord := s.u64(atQueueHead)
	for {
		head := atomic.LoadUint64(headWord)
		place := s.cell(head)
		content := atomic.LoadUint64(place)
		claimed := false
		slot = uint32(content & (1<<24 - 1))
		if content>>24 != head&ticketMask {
			// Not written yet, or written over.
			tail := atomic.LoadUint64(s.u64(atQueueTail))
			if !isBefore(head, tail) {
				return 0, 0, false
			}
			if oldest := tail - uint64(s.queueCells); isBefore(head, oldest) {
				atomic.CompareAndSwapUint64(headWord, head, oldest)
				continue
			}
			if atomic.LoadUint64(place) != content {
				continue
			}
		} else if slot < s.slots {
			claimed = atomic.CompareAndSwapUint64(s.u64(s.slotAt(slot)+atState),
				packState(kindQueued, 0, head), packState(kindTaken, worker, head))
		}
		// Claimed here or elsewhere, cancelled or overwritten: in each case this position is used up.
		atomic.CompareAndSwapUint64(headWord, head, head+1)
		if claimed {
			return slot, head & ticketMask, true
		}
	}
}
