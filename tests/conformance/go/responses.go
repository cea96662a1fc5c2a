package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// responses are ways to answer, each of which net/http treats in its own way.
func responses(mux *http.ServeMux) {
	handlers := map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"status":  func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r, "code", 200)) },
		"status-text": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(number(r, "code", 200))
			_, err := io.WriteString(w, "text\n")
			if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		},
		"html": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<!DOCTYPE html><title>x</title>") },
		"html-in-pieces": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<!DOC")
			io.WriteString(w, "TYPE html><title>x</title>")
		},
		"html-flushed-early": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<!D")
			w.(http.Flusher).Flush()
			io.WriteString(w, "OCTYPE html>")
		},
		"png": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "\x89PNG\x0d\x0a\x1a\x0a") },
		"type": func(w http.ResponseWriter, r *http.Request) {
			set(w, "Content-Type", "a/b")
			io.WriteString(w, "<html>")
		},
		"no-type": func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		},
		"encoded": func(w http.ResponseWriter, r *http.Request) {
			set(w, "Content-Encoding", "x")
			io.WriteString(w, "<html>")
		},
		"length":        func(w http.ResponseWriter, r *http.Request) { set(w, "Content-Length", "4"); io.WriteString(w, "1234") },
		"length-wrong":  func(w http.ResponseWriter, r *http.Request) { set(w, "Content-Length", "x"); io.WriteString(w, "1234") },
		"length-before": func(w http.ResponseWriter, r *http.Request) { set(w, "Content-Length", "0"); w.WriteHeader(200) },
		"more-than-length": func(w http.ResponseWriter, r *http.Request) {
			set(w, "Content-Length", "2")
			io.WriteString(w, "12")
			_, err := io.WriteString(w, "34")
			fmt.Fprintln(os.Stderr, "more:", err)
		},
		"less-than-length": func(w http.ResponseWriter, r *http.Request) { set(w, "Content-Length", "9"); io.WriteString(w, "1234") },
		"late-fields": func(w http.ResponseWriter, r *http.Request) {
			set(w, "X-Early", "1")
			w.WriteHeader(202)
			set(w, "X-Late", "1")
			set(w, "X-Early", "2")
		},
		"late-fields-implicit": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "x")
			set(w, "X-Late", "1")
		},
		"twice": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201); w.WriteHeader(404) },
		"several": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "a=b")
			w.Header().Add("Set-Cookie", "c=d")
			http.SetCookie(w, &http.Cookie{Name: "e", Value: "f", Path: "/"})
		},
		"odd-values": func(w http.ResponseWriter, r *http.Request) {
			set(w, "X-Break", "a\r\nX-Injected: b")
			set(w, "X-Space", "  a  ")
			set(w, "X-Empty", "")
			set(w, "X-Latin", "\xe9")
			w.Header()["x-lower"] = []string{"1"}
			w.Header()["not a name"] = []string{"1"}
			w.Header()["X-None"] = nil
		},
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hello?a=b", http.StatusFound) },
		"not-found": http.NotFound,
		"error":     func(w http.ResponseWriter, r *http.Request) { http.Error(w, "failed", http.StatusInternalServerError) },
		"file": func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Unix(1700000000, 0), strings.NewReader(strings.Repeat("0123456789", 1000)))
		},
		"read-from": func(w http.ResponseWriter, r *http.Request) {
			count, err := io.Copy(w, strings.NewReader(strings.Repeat("<p>text", 30000)))
			if count != 210000 || err != nil {
				panic(err)
			}
		},
		"read-from-unsized": func(w http.ResponseWriter, r *http.Request) {
			count, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(strings.Repeat("<p>text", 100))})
			if count != 700 || err != nil {
				panic(err)
			}
		},
		"early-hints": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "x") },
		"large-head": func(w http.ResponseWriter, r *http.Request) {
			set(w, "X-Large", strings.Repeat("x", number(r, "n", 30000)))
			io.WriteString(w, "body")
		},
		"partial-body": func(w http.ResponseWriter, r *http.Request) {
			start := make([]byte, 3)
			_, err := io.ReadFull(r.Body, start)
			fmt.Fprintf(w, "%q %v", start, err)
		},
		"limited-body": func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4))
			fmt.Fprintf(w, "%q %v", body, err)
		},
		"form": func(w http.ResponseWriter, r *http.Request) {
			err := r.ParseMultipartForm(1 << 20)
			fmt.Fprintf(w, "%v %v", r.Form, err)
		},
		"no-hijack": func(w http.ResponseWriter, r *http.Request) {
			_, isFlusher := w.(http.Flusher)
			_, isReaderFrom := w.(io.ReaderFrom)
			_, isHijacker := w.(http.Hijacker)
			_, isNotifier := w.(http.CloseNotifier)
			_, isStringWriter := w.(io.StringWriter)
			fmt.Fprint(w, isFlusher, isReaderFrom, isHijacker, isNotifier, isStringWriter)
		},
		"deadlines": func(w http.ResponseWriter, r *http.Request) {
			controller := http.NewResponseController(w)
			later := time.Now().Add(time.Hour)
			fmt.Fprint(w, controller.SetReadDeadline(later), controller.SetWriteDeadline(later), controller.EnableFullDuplex())
		},
		"timeout-handler": http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}), 20*time.Millisecond, "too late").ServeHTTP,
		"after-return": func(w http.ResponseWriter, r *http.Request) {
			body := r.Body
			go func() {
				for range 3 {
					time.Sleep(time.Millisecond)
					body.Read(make([]byte, 10))
				}
			}()
		},
	}
	for name, handler := range handlers {
		mux.HandleFunc("/response/"+name, handler)
	}
}

func set(w http.ResponseWriter, name, value string) { w.Header().Set(name, value) }
