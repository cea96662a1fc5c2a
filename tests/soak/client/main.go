// Clients for hours: each keeps its connections for a while, asks one application after the other by HTTP/1, 2 or 3 or by WebSocket, compares
// each response with the one that is due, and prints the differences.
//
// client PLAN.json: the plan is what `Plan` says. It ends with what has begun at SIGTERM. Lines of JSON on standard output:
// {"at": UNIX TIME, "host": …, "protocol": …, "wrong": …} for each wrong response, and {"at": …, "requests": {"PROTOCOL HOST": COUNT}, "gap": …}
// each second: the gap is the largest number of seconds between two heartbeats since the line before, which shows how long the machine had no
// time for this program.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/websocket"
)

// Plan is what the clients do.
type Plan struct {
	// Addresses of the listeners, and the file with the authority of the second one.
	Plain, Encrypted, Authority string
	// Clients of each protocol.
	Clients map[string]int
	// Milliseconds between two requests of a client, on average.
	Pause   int
	Targets []Target
}

// Target is an application or a share, which has a host of its own.
type Target struct {
	Host string
	// The body that a GET of each path is answered with.
	Pages map[string]string
	// POST /body is answered with the body.
	Echoes bool
	// GET /talk is a WebSocket, which answers a text with `heard: ` before it.
	Talks bool
}

// A request that takes longer has been lost.
const patience = 60 * time.Second

var (
	plan     Plan
	output   = json.NewEncoder(os.Stdout)
	printing sync.Mutex
	counts   = map[string]int{}
	gap      time.Duration
)

const heartbeat = 50 * time.Millisecond

func now() float64 { return float64(time.Now().UnixNano()) / 1e9 }

// report prints a wrong response, whose request was begun at this time.
func report(begun float64, protocol, host, wrong string) {
	printing.Lock()
	defer printing.Unlock()
	output.Encode(map[string]any{"begun": begun, "at": now(), "protocol": protocol, "host": host, "wrong": wrong})
}

func count(protocol, host string) {
	printing.Lock()
	defer printing.Unlock()
	counts[protocol+" "+host]++
}

func printCounts() {
	printing.Lock()
	defer printing.Unlock()
	output.Encode(map[string]any{"at": now(), "requests": counts, "gap": gap.Seconds()})
	gap = 0
}

func beat(isOver func() bool) {
	for last := time.Now(); !isOver(); {
		time.Sleep(heartbeat)
		passed := time.Since(last)
		last = last.Add(passed)
		printing.Lock()
		gap = max(gap, passed)
		printing.Unlock()
	}
}

// transport is what one client keeps its connections in. All hosts are at one address.
func transport(protocol string, config *tls.Config) (http.RoundTripper, func()) {
	if protocol == "HTTP/3" {
		three := &http3.Transport{TLSClientConfig: config, Dial: func(_ context.Context, _ string, tls *tls.Config, quicConfig *quic.Config) (*quic.Conn, error) {
			// A request that is abandoned must not end the handshake, which the next one needs.
			return quic.DialAddrEarly(context.Background(), plan.Encrypted, tls, quicConfig)
		}}
		return three, func() { three.Close() }
	}
	address := plan.Plain
	if protocol == "HTTP/2" {
		address = plan.Encrypted
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	kept := &http.Transport{DialContext: dial, TLSClientConfig: config, ForceAttemptHTTP2: protocol == "HTTP/2"}
	return kept, kept.CloseIdleConnections
}

// randomBody is as long as one that is sent along, one that is spooled, or one between.
func randomBody(random *rand.Rand) []byte {
	body := make([]byte, []int{10, 3_000, 40_000, 300_000}[random.Intn(4)])
	random.Read(body)
	return body
}

// ask sends one request, and returns what is wrong with the response.
func ask(client *http.Client, random *rand.Rand, scheme string, target Target) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var body []byte
	method, path, due := "GET", "/body", ""
	if target.Echoes && random.Intn(3) == 0 {
		method, body = "POST", randomBody(random)
		due = string(body)
	} else {
		for path, due = range target.Pages {
			break
		}
	}
	isAbandoned := random.Intn(20) == 0
	if isAbandoned {
		time.AfterFunc(time.Duration(random.Intn(3000))*time.Microsecond, cancel)
	}
	request, err := http.NewRequestWithContext(ctx, method, scheme+"://"+target.Host+path, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		var text []byte
		text, err = io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != 200 || string(text) != due) {
			return fmt.Sprintf("%s %s: %d with %d bytes in place of 200 with %d: %.80q", method, path, response.StatusCode, len(text), len(due), text)
		}
	}
	if err != nil && !isAbandoned {
		return fmt.Sprintf("%s %s: %v", method, path, err)
	}
	return ""
}

// visit is one client until the end: some requests on its connections, then new ones.
func visit(protocol string, config *tls.Config, isOver func() bool) {
	random := rand.New(rand.NewSource(rand.Int63()))
	scheme := "https"
	if protocol == "HTTP/1" {
		scheme = "http"
	}
	for !isOver() {
		way, end := transport(protocol, config)
		client := &http.Client{Transport: way}
		for range 1 + random.Intn(200) {
			if isOver() {
				break
			}
			target := plan.Targets[random.Intn(len(plan.Targets))]
			begun := now()
			wrong := ask(client, random, scheme, target)
			count(protocol, target.Host)
			if wrong != "" {
				report(begun, protocol, target.Host, wrong)
			}
			time.Sleep(time.Duration(random.Intn(2*plan.Pause+1)) * time.Millisecond)
		}
		end()
	}
}

// talk sends some texts over one WebSocket, and returns what is wrong with the answers.
func talk(host string, random *rand.Rand, isOver func() bool) error {
	config, err := websocket.NewConfig("ws://"+host+"/talk", "http://"+host)
	if err != nil {
		return err
	}
	connection, err := net.Dial("tcp", plan.Plain)
	if err != nil {
		return err
	}
	defer connection.Close()
	// For each message, since a conversation may take longer.
	wait := func() { connection.SetDeadline(time.Now().Add(patience)) }
	wait()
	socket, err := websocket.NewClient(config, connection)
	if err != nil {
		return err
	}
	for range 1 + random.Intn(30) {
		if isOver() {
			break
		}
		wait()
		text := strings.Repeat("x", random.Intn(100))
		if err := websocket.Message.Send(socket, text); err != nil {
			return err
		}
		var heard string
		if err := websocket.Message.Receive(socket, &heard); err != nil {
			return err
		}
		if heard != "heard: "+text {
			return fmt.Errorf("%q in place of %q", heard, "heard: "+text)
		}
		time.Sleep(time.Duration(random.Intn(2*plan.Pause+1)) * time.Millisecond)
	}
	wait()
	return socket.Close()
}

func converse(isOver func() bool) {
	random := rand.New(rand.NewSource(rand.Int63()))
	var talking []Target
	for _, target := range plan.Targets {
		if target.Talks {
			talking = append(talking, target)
		}
	}
	for !isOver() && len(talking) > 0 {
		host := talking[random.Intn(len(talking))].Host
		begun := now()
		if err := talk(host, random, isOver); err != nil {
			report(begun, "WebSocket", host, err.Error())
		}
		count("WebSocket", host)
		time.Sleep(time.Duration(plan.Pause) * time.Millisecond)
	}
}

func must(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	must("plan", err)
	must("plan", json.Unmarshal(text, &plan))
	authority, err := os.ReadFile(plan.Authority)
	must("authority", err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		must("authority", fmt.Errorf("no certificate in %s", plan.Authority))
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	isOver := func() bool { return stop.Err() != nil }
	var all sync.WaitGroup
	for protocol, clients := range plan.Clients {
		for range clients {
			all.Add(1)
			go func() {
				defer all.Done()
				if protocol == "WebSocket" {
					converse(isOver)
				} else {
					visit(protocol, &tls.Config{RootCAs: roots}, isOver)
				}
			}()
		}
	}
	go beat(isOver)
	go func() {
		for !isOver() {
			time.Sleep(time.Second)
			printCounts()
		}
	}()
	all.Wait()
	printCounts()
}
