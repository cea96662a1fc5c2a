// An application that does what tests ask it to. Started by hand it is served by net/http, by Tutti as an application of type
// `external`: the tests ask both the same and compare the answers.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	unit "unit.nginx.org/go"
)

var served atomic.Int64

func main() {
	log.SetFlags(0)
	switch os.Getenv("FAIL") {
	case "exit":
		fmt.Fprintln(os.Stderr, "there is no database")
		os.Exit(3)
	case "panic":
		panic("no database")
	case "never ready":
		select {}
	}
	addr := ":8080"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	if err := unit.ListenAndServe(addr, counted(routes())); err != nil {
		log.Fatal(err)
	}
}

func counted(handler http.Handler) http.Handler {
	every, _ := strconv.ParseInt(os.Getenv("PANIC_EACH"), 10, 64)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if count := served.Add(1); every > 0 && count%every == 0 {
			panic("as asked to")
		}
		handler.ServeHTTP(w, r)
	})
}

func number(r *http.Request, name string, otherwise int) int {
	if value, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
		return value
	}
	return otherwise
}

func milliseconds(r *http.Request) time.Duration {
	return time.Duration(number(r, "ms", 0)) * time.Millisecond
}

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload; as=style")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "whole")
		w.Header().Set("X-Sum", "5")
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello from Go\n") })
	mux.HandleFunc("/request", describe)
	mux.HandleFunc("/request/", describe)
	mux.HandleFunc("/pid", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, os.Getpid()) })
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/pieces", pieces)
	mux.HandleFunc("/lines", pieces)
	mux.HandleFunc("/big", big)
	mux.HandleFunc("/flush", flush)
	mux.HandleFunc("/sleep", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(milliseconds(r))
		io.WriteString(w, "slept\n")
	})
	mux.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, served.Load()) })
	mux.HandleFunc("/environment", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, strings.Join(os.Environ(), "\n"))
	})
	mux.HandleFunc("/arguments", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q\n", os.Args) })
	mux.HandleFunc("/folder", func(w http.ResponseWriter, r *http.Request) {
		folder, err := os.Getwd()
		fmt.Fprintln(w, folder, os.Getuid(), os.Getgid(), err)
	})
	mux.HandleFunc("/print", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("out", r.URL.RawQuery)
		fmt.Fprintln(os.Stderr, "err", r.URL.RawQuery)
	})
	mux.HandleFunc("/gone", gone)
	responses(mux)
	faults(mux)
	contract(mux)
	return mux
}

// describe shows a request as a handler sees it.
func describe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %q %s %d.%d\n", r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor)
	fmt.Fprintf(w, "url %q %q %q %v\n", r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.ForceQuery)
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintf(w, "host %q remote %q tls %v\n", r.Host, host, r.TLS != nil)
	fmt.Fprintf(w, "length %d encoding %q trailer %v close %v\n", r.ContentLength, r.TransferEncoding, r.Trailer, r.Close)
	fmt.Fprintf(w, "body %q %v\n", body, err)
	_, isServer := r.Context().Value(http.ServerContextKey).(*http.Server)
	local, isAddress := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	fmt.Fprintf(w, "server %v local %v %v\n", isServer, isAddress, isAddress && local.Network() == "tcp")
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		// net/http has it in r.Host alone; Unit's programs read it in both.
		if name != "Host" {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s: %q\n", name, r.Header[name])
	}
}

// pieces echoes what comes when it comes.
func pieces(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if err := control.EnableFullDuplex(); err != nil {
		log.Print(err)
	}
	piece := make([]byte, 8192)
	for {
		count, err := r.Body.Read(piece)
		w.Write(piece[:count])
		control.Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Print("cut short: ", err)
			return
		}
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	if _, err := io.Copy(w, r.Body); err != nil {
		log.Print(err)
		panic(http.ErrAbortHandler)
	}
}

// big sends lines of 64 bytes, numbered, so that a piece lost or doubled shows.
func big(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	left := number(r, "n", 1<<20)
	out := bufio.NewWriter(w)
	defer out.Flush()
	for line := 0; left > 0; line++ {
		text := fmt.Sprintf("%063d\n", line)
		count := min(left, len(text))
		if _, err := io.WriteString(out, text[:count]); err != nil {
			return
		}
		left -= count
	}
}

func flush(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, "first\n")
	if err := http.NewResponseController(w).Flush(); err != nil {
		log.Print(err)
	}
	time.Sleep(milliseconds(r))
	io.WriteString(w, "second\n")
}

// gone waits until the client has gone, and says so on standard error.
func gone(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "gone:", r.URL.RawQuery, ctx.Err(), errors.Is(r.Context().Err(), context.Canceled))
}
