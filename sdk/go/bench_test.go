package unit

import (
	"io"
	"net/http"
	"testing"
)

// The cost of a request in this package and in the handler, without going to sleep in between.
func BenchmarkServe(b *testing.B) {
	g, err := newGeometry(70, 2, 1)
	if err != nil {
		b.Fatal(err)
	}
	fd := newMemfd(b, int64(g.totalLength))
	if err := writeHeader(fd, g); err != nil {
		b.Fatal(err)
	}
	s, err := openSegment(fd)
	if err != nil {
		b.Fatal(err)
	}
	r := &fakeRouter{s: s, next: 1, threads: []int{newEvent(b)}, workers: []int{newEvent(b), newEvent(b)}}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	if r.w, err = newWorker(s, 1, r.threads, r.workers, &http.Server{Handler: handler}); err != nil {
		b.Fatal(err)
	}
	record := (&fakeRequest{method: "GET", target: "/hello", fields: [][2]string{
		{"Host", "localhost:8080"}, {"User-Agent", "bench"}, {"Accept", "*/*"},
	}}).encode()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r.queueRecord(3, record)
		c := r.w.look()
		if c == nil {
			b.Fatal("nothing was taken")
		}
		c.serve()
	}
}
