// Package unit serves an http.Handler from a Tutti server.
//
//	unit.ListenAndServe(":8080", handler)
//
// takes the place of http.ListenAndServe. Started by Tutti (an application of type `external`), the program is a worker: requests come
// from the server through shared memory, and the address is not used. Started by hand it is http.ListenAndServe. No cgo.
//
// Handlers find what net/http gives them: streaming, flushing, contexts that end when the client goes, http.ResponseController,
// and http.Hijacker for WebSocket libraries.
package unit

import (
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"unsafe"
)

var (
	errWorkerNumber = errors.New("the segment has no such worker")
	errServedTwice  = errors.New("tutti: this process is serving already; a program has one handler")

	isServing atomic.Bool
)

// ListenAndServe serves handler, or http.DefaultServeMux if that is nil, until the server tells this process to leave; then it
// returns nil once all requests have been answered. main should return after that.
//
// Outside Tutti it is http.ListenAndServe.
func ListenAndServe(addr string, handler http.Handler) error {
	if !isWorker() {
		if isServing.Load() {
			return errServedTwice
		}
		return http.ListenAndServe(addr, handler)
	}
	if !isServing.CompareAndSwap(false, true) {
		return errServedTwice
	}
	return serve(&http.Server{Addr: addr, Handler: handler})
}

func serve(server *http.Server) error {
	in, err := inherit()
	if in == nil {
		return err
	}
	fail := func(step string, err error) error {
		log.Printf("tutti: %s: %v", step, err)
		in.tellFailed(step, err)
		return err
	}
	if err != nil {
		return fail("joining the server", err)
	}
	const place = "taking the place in the segment"
	// First: it says whether both sides understand the rest alike.
	segment, err := openSegment(in.segment)
	if err != nil {
		return fail(place, err)
	}
	syscall.Close(in.segment)
	start, err := in.readStart()
	if err != nil {
		return fail("reading the start document", err)
	}
	start.shareCores()
	w, err := joinSegment(in, segment, start, server)
	if err != nil {
		return fail(place, err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		w.leave()
	}()
	w.ready()
	in.tellReady()
	w.run()
	return nil
}

// stringBytes returns the bytes of a string, which must not be written to.
func stringBytes(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }
