package unit

import (
	"encoding/binary"
	"errors"
)

// The encoded request (spec/wire.md, 5).

const (
	recordFixed     = 136
	recordFieldSize = 12
	unknownLength   = ^uint64(0)
)

// Strings of a record, by their place.
const (
	stringMethod = iota
	stringTarget
	stringPath
	stringQuery
	stringScheme
	stringRemoteAddress
	stringLocalAddress
	stringServerName
	stringTargetName
	stringUser
)

const (
	bodyNone = iota
	bodyInline
	bodySpool
	bodyStream
)

// record is a copy of what the router wrote, without an inline body: its strings are cut out of one string.
type record struct {
	fixed  [recordFixed]byte
	table  []byte
	text   string
	offset uint32 // of text in the record
}

var errRecord = errors.New("request record is corrupt")

// parse copies everything but the inline body.
func (r *record) parse(memory []byte) error {
	if len(memory) < recordFixed {
		return errRecord
	}
	copy(r.fixed[:], memory)
	length := uint64(r.u32(0))
	fields := uint64(r.u32(4))
	textAt := recordFixed + fields*recordFieldSize
	if length > uint64(len(memory)) || textAt > length {
		return errRecord
	}
	end := length
	if r.bodyKind() == bodyInline {
		offset, body := r.body()
		if offset < textAt || offset > length || body > length-offset {
			return errRecord
		}
		end = offset
	}
	r.table = memory[recordFixed:textAt]
	r.text = string(memory[textAt:end])
	r.offset = uint32(textAt)
	return nil
}

func (r *record) u32(at int) uint32 { return binary.NativeEndian.Uint32(r.fixed[at:]) }
func (r *record) u64(at int) uint64 { return binary.NativeEndian.Uint64(r.fixed[at:]) }

func (r *record) versionMinor() int     { return int(r.fixed[8]) }
func (r *record) isTLS() bool           { return r.fixed[9] != 0 }
func (r *record) bodyKind() int         { return int(r.fixed[10]) }
func (r *record) isWebSocket() bool     { return r.fixed[11] != 0 }
func (r *record) remotePort() uint16    { return binary.NativeEndian.Uint16(r.fixed[12:]) }
func (r *record) localPort() uint16     { return binary.NativeEndian.Uint16(r.fixed[14:]) }
func (r *record) contentLength() uint64 { return r.u64(16) }

// body is where the body lies: in the record or in the spool file.
func (r *record) body() (offset, length uint64) { return r.u64(24), r.u64(32) }

func (r *record) fieldCount() int { return len(r.table) / recordFieldSize }

// cut gives a part of the record's text; empty when the record is corrupt.
func (r *record) cut(offset, length uint32) string {
	start := uint64(offset) - uint64(r.offset)
	if offset < r.offset || start+uint64(length) > uint64(len(r.text)) {
		return ""
	}
	return r.text[start : start+uint64(length)]
}

func (r *record) string(place int) string {
	at := 56 + place*8
	return r.cut(r.u32(at), r.u32(at+4))
}

// field gives a name and its value, which follows the name's NUL. The table is still in shared memory.
func (r *record) field(index int) (name, value string) {
	entry := r.table[index*recordFieldSize:][:recordFieldSize]
	offset := binary.NativeEndian.Uint32(entry)
	length := binary.NativeEndian.Uint32(entry[4:])
	name = r.cut(offset, length)
	return name, r.cut(offset+length+1, binary.NativeEndian.Uint32(entry[8:]))
}
