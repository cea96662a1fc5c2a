// The Go program of the benchmarks: started by hand it is served by net/http, by Tutti as an application of type `external`.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"

	unit "unit.nginx.org/go"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello, world!\n") })
	mux.HandleFunc("/json", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"message": "Hello, world!", "agent": r.UserAgent(), "list": []int{1, 2, 3}})
	})
	// 100 KiB in pieces, as templates write.
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		piece := make([]byte, 4096)
		for index := range piece {
			piece[index] = byte('a' + index%26)
		}
		for range 25 {
			w.Write(piece)
		}
	})
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	addr := ":8080"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	if strings.HasPrefix(addr, "/") {
		listener, err := net.Listen("unix", addr)
		if err != nil {
			log.Fatal(err)
		}
		log.Fatal(http.Serve(listener, mux))
	}
	log.Fatal(unit.ListenAndServe(addr, mux))
}
