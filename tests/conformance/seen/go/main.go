// Tells what a handler sees of a request, as the applications beside it do in their languages.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"strings"

	unit "unit.nginx.org/go"
)

func main() {
	log.Fatal(unit.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fields := map[string]string{"host": r.Host}
		for name, values := range r.Header {
			fields[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		json.NewEncoder(w).Encode(map[string]any{"uri": r.RequestURI, "path": r.URL.Path, "query": r.URL.RawQuery, "fields": fields})
	})))
}
