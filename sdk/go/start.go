package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// The variable that makes a program a worker of the server (spec/wire.md, 9).
const (
	variableWire        = "TUTTI_WIRE"
	variableWorker      = "TUTTI_WORKER"
	variableDescriptors = "TUTTI_DESCRIPTORS"
)

// startDocument is what this package needs of the start document.
type startDocument struct {
	Name         string          `json:"name"`
	Concurrency  uint32          `json:"concurrency"`
	WorkerEvents bool            `json:"worker_events"`
	Config       json.RawMessage `json:"config"`
}

// inheritance is what the server handed down, taken over once.
type inheritance struct {
	worker  uint32
	control int
	segment int
	spool   int
	start   int
	events  int
}

// isWorker says whether the server started this program.
func isWorker() bool { return os.Getenv(variableWire) != "" }

// inherit reads the environment and clears it: this program's own children are no workers.
func inherit() (*inheritance, error) {
	wire, worker, descriptors := os.Getenv(variableWire), os.Getenv(variableWorker), os.Getenv(variableDescriptors)
	for _, name := range []string{variableWire, variableWorker, variableDescriptors} {
		os.Unsetenv(name)
	}
	numbers := map[string]int{}
	for _, pair := range strings.Split(descriptors, ",") {
		name, text, _ := strings.Cut(pair, "=")
		if number, err := strconv.Atoi(text); err == nil {
			numbers[name] = number
			syscall.CloseOnExec(number)
		}
	}
	number, err := strconv.ParseUint(worker, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variableWorker, err)
	}
	in := &inheritance{worker: uint32(number), spool: -1}
	for name, place := range map[string]*int{
		"control": &in.control, "segment": &in.segment, "start": &in.start, "events": &in.events,
	} {
		descriptor, ok := numbers[name]
		if !ok {
			return nil, fmt.Errorf("%s names no `%s`", variableDescriptors, name)
		}
		*place = descriptor
	}
	if spool, ok := numbers["spool"]; ok {
		in.spool = spool
	}
	oldest, newest, _ := strings.Cut(wire, "-")
	first, err := strconv.ParseUint(oldest, 10, 32)
	last, other := strconv.ParseUint(newest, 10, 32)
	if err != nil || other != nil || !meets(uint32(first), uint32(last)) {
		return in, &versionError{wire}
	}
	return in, nil
}

func (in *inheritance) readStart() (*startDocument, error) {
	var status syscall.Stat_t
	if err := syscall.Fstat(in.start, &status); err != nil {
		return nil, err
	}
	text := make([]byte, status.Size)
	// Shared with other workers: its position is not ours to move.
	if _, err := syscall.Pread(in.start, text, 0); err != nil {
		return nil, err
	}
	syscall.Close(in.start)
	start := new(startDocument)
	if err := json.Unmarshal(text, start); err != nil {
		return nil, err
	}
	return start, nil
}

// takeEvents gives the router threads' eventfds and the workers', which follow them.
func (in *inheritance) takeEvents(segment *segment, start *startDocument) (threads, workers []int, err error) {
	if !start.WorkerEvents {
		return nil, nil, errors.New("the server has made no events for this application's workers")
	}
	take := func(first int, count uint32) []int {
		events := make([]int, count)
		for index := range events {
			events[index] = first + index
			syscall.CloseOnExec(events[index])
		}
		return events
	}
	threads = take(in.events, segment.threads)
	workers = take(in.events+len(threads), segment.workers)
	return threads, workers, nil
}

// tell sends the one message that a worker sends, and closes the socket.
func (in *inheritance) tell(message []byte) {
	// Without a router there is nothing to notify, and there will be no request either.
	syscall.Write(in.control, message)
	syscall.Close(in.control)
}

// tellReady writes its numbers by hand: what encoding/json needs for its first message is a tenth of a millisecond of each start.
func (in *inheritance) tellReady() {
	message := append([]byte(`{"what":"worker_ready","worker":`), strconv.FormatUint(uint64(in.worker), 10)...)
	message = append(append(message, `,"pid":`...), strconv.Itoa(os.Getpid())...)
	in.tell(append(message, '}'))
}

func (in *inheritance) tellFailed(step string, err error) {
	var hint any
	if outdated := (*versionError)(nil); errors.As(err, &outdated) {
		hint = "build the program with the SDK that came with the server"
	}
	message, _ := json.Marshal(map[string]any{
		"what": "worker_failed", "worker": in.worker, "pid": os.Getpid(), "step": step, "message": err.Error(), "hint": hint,
	})
	in.tell(message)
}

// shareCores lets the processes of an application share the machine: each runs Go code on as many cores as there are for
// it. Where the number of processes is not fixed, on two at least. GOMAXPROCS in the environment has the last word.
func (start *startDocument) shareCores() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	var config struct {
		Processes json.RawMessage `json:"processes"`
	}
	var fixed int
	var dynamic struct {
		Max int `json:"max"`
	}
	least, processes := 1, 1
	if json.Unmarshal(start.Config, &config) != nil {
		return
	}
	if json.Unmarshal(config.Processes, &fixed) == nil {
		processes = fixed
	} else if json.Unmarshal(config.Processes, &dynamic) == nil {
		least, processes = 2, dynamic.Max
	}
	if processes <= 1 {
		return
	}
	cores := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(min(cores, max(least, (cores+processes-1)/processes)))
}
