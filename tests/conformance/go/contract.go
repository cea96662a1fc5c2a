package main

import (
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

var grown []byte

// contract is what the language contract (tests/e2e/tests/contract.rs) asks for beside the other routes.
func contract(mux *http.ServeMux) {
	mux.HandleFunc("/body", pieces)
	mux.HandleFunc("/head", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		w.Header().Set("X-Empty", "")
		w.Header().Set("X-Back", r.Header.Get("X-Long"))
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, strings.Join(r.Header["X-Seen"], ", "))
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		for {
			if _, err := os.Stat(os.Getenv("WORK") + "/go"); err == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		io.WriteString(w, "second\n")
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 65536)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/fails", func(w http.ResponseWriter, r *http.Request) { panic("asked to fail") })
	mux.HandleFunc("/ends", func(w http.ResponseWriter, r *http.Request) {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	mux.HandleFunc("/hangs", func(w http.ResponseWriter, r *http.Request) { select {} })
	mux.HandleFunc("/grows", func(w http.ResponseWriter, r *http.Request) {
		grown = []byte(strings.Repeat("x", 200<<20))
		time.Sleep(500 * time.Millisecond)
		io.WriteString(w, "grown")
	})
	mux.HandleFunc("/talk", talk)
}

// talk answers one short text after the other, by hand.
func talk(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	connection, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	for {
		var head [6]byte
		if _, err := io.ReadFull(buffered, head[:]); err != nil {
			return
		}
		said := make([]byte, head[1]&127)
		if _, err := io.ReadFull(buffered, said); err != nil {
			return
		}
		for at := range said {
			said[at] ^= head[2+at%4]
		}
		if head[0] != 0x88 {
			said = append([]byte("heard: "), said...)
		}
		connection.Write(append([]byte{head[0], byte(len(said))}, said...))
		if head[0] == 0x88 {
			return
		}
	}
}
