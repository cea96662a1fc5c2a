package unit

import (
	"math/bits"
	"sync/atomic"
)

// Slot maps (spec/wire.md, 7): bitmaps over all slots with summaries. `at` is where a map starts.

func (s *segment) completions(thread uint32) uintptr {
	return s.completionOffset + uintptr(thread)*s.mapStride
}

func (s *segment) attention(worker uint32) uintptr {
	return s.attentionOffset + uintptr(worker)*s.mapStride
}

func (s *segment) mapSummary(at uintptr, index uint32) *uint64 {
	return s.u64(at + 8 + 8*uintptr(index))
}

func (s *segment) mapWord(at uintptr, index uint32) *uint64 {
	return s.u64(at + 8 + 8*uintptr(s.mapSummaries) + 8*uintptr(index))
}

func (s *segment) mark(at uintptr, slot uint32) {
	word := slot / 64
	atomic.OrUint64(s.mapWord(at, word), 1<<(slot%64))
	atomic.OrUint64(s.mapSummary(at, word/64), 1<<(word%64))
}

func (s *segment) isMarked(at uintptr) bool {
	for index := uint32(0); index < s.mapSummaries; index++ {
		if atomic.LoadUint64(s.mapSummary(at, index)) != 0 {
			return true
		}
	}
	return false
}

// drain calls f for each marked slot; what is marked meanwhile is left to the next call.
func (s *segment) drain(at uintptr, f func(slot uint32)) {
	words := (s.slots + 63) / 64
	for index := uint32(0); index < s.mapSummaries; index++ {
		place := s.mapSummary(at, index)
		if atomic.LoadUint64(place) == 0 {
			continue
		}
		for summary := atomic.SwapUint64(place, 0); summary != 0; summary &= summary - 1 {
			word := index*64 + uint32(bits.TrailingZeros64(summary))
			if word >= words {
				continue
			}
			for found := atomic.SwapUint64(s.mapWord(at, word), 0); found != 0; found &= found - 1 {
				f(word*64 + uint32(bits.TrailingZeros64(found)))
			}
		}
	}
}
