// Tells which request a handler is given.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"

	unit "unit.nginx.org/go"
)

type seen struct {
	Stamp  string `json:"stamp"`
	Method string `json:"method"`
	Target string `json:"target"`
	Body   string `json:"body"`
}

func main() {
	log.Fatal(unit.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		letters := make([]rune, len(body))
		for place, letter := range body {
			letters[place] = rune(letter)
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(seen{r.Header.Get("X-Router"), r.Method, r.RequestURI, string(letters)})
	})))
}
