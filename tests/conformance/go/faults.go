package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// faults are what goes wrong in programs.
func faults(mux *http.ServeMux) {
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic("asked to panic") })
	mux.HandleFunc("/panic-late", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "beginning\n")
		w.(http.Flusher).Flush()
		panic("asked to panic late")
	})
	mux.HandleFunc("/abort", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/exit", func(w http.ResponseWriter, r *http.Request) { os.Exit(number(r, "code", 0)) })
	mux.HandleFunc("/kill", func(w http.ResponseWriter, r *http.Request) {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	mux.HandleFunc("/crash", func(w http.ResponseWriter, r *http.Request) {
		go func() { panic("in a goroutine of its own: no handler can recover") }()
		time.Sleep(time.Minute)
	})
	mux.HandleFunc("/hang", func(w http.ResponseWriter, r *http.Request) { select {} })
	mux.HandleFunc("/spin", func(w http.ResponseWriter, r *http.Request) {
		for end := time.Now().Add(milliseconds(r)); time.Now().Before(end); {
		}
	})
	mux.HandleFunc("/scribble", scribble)
}

// scribble writes garbage into the memory that is shared with the server.
func scribble(w http.ResponseWriter, r *http.Request) {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		panic(err)
	}
	defer maps.Close()
	random := rand.New(rand.NewSource(int64(number(r, "seed", 1))))
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		// The only shared mapping of a Go program is the segment.
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[1] != "rw-s" {
			continue
		}
		var start, end uintptr
		if _, err := fmt.Sscanf(words[0], "%x-%x", &start, &end); err != nil {
			panic(err)
		}
		memory := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&start))), end-start)
		for range number(r, "n", 100000) {
			memory[random.Intn(len(memory))] = byte(random.Intn(256))
		}
		for at := range min(len(memory), 64<<10) {
			memory[at] = byte(random.Intn(256))
		}
	}
	io.WriteString(w, "scribbled\n")
}
