// Requests and a WebSocket over HTTP/3 with quic-go: GET, POST with what was sent, many at once, RFC 9220, and requests in the first packets of
// a client that has been here before.
//
// client PORT [early]
package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

var address string

// must ends the program with what went wrong.
func must(what string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, what+":", err)
		os.Exit(1)
	}
}

// expect ends the program if something is not as it should be.
func expect(is bool, format string, values ...any) {
	if !is {
		must("unexpected", fmt.Errorf(format, values...))
	}
}

func ask(client *http.Client, method, path string, body io.Reader) (*http.Response, []byte) {
	request, err := http.NewRequest(method, "https://"+address+path, body)
	must(path, err)
	response, err := client.Do(request)
	must(path, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(path, err)
	return response, text
}

func requests(client *http.Client) {
	response, text := ask(client, "GET", "/small.txt", nil)
	expect(response.ProtoMajor == 3 && response.StatusCode == 200 && string(text) == "small", "%v %q", response, text)
	response, text = ask(client, "HEAD", "/large.bin", nil)
	expect(response.ContentLength == 3_000_000 && len(text) == 0, "%v", response)
	response, _ = ask(client, "GET", "/none", nil)
	expect(response.StatusCode == 404, "%v", response)
	body := make([]byte, 5_000_000)
	for at := range body {
		body[at] = byte(at*7 + at/251)
	}
	expected := fmt.Sprintf("HTTP/3.0 https %d %x", len(body), sha1.Sum(body))
	// With its length, and without.
	for _, reader := range []io.Reader{bytes.NewReader(body), io.MultiReader(bytes.NewReader(body))} {
		_, text = ask(client, "POST", "/digest.php", reader)
		expect(string(text) == expected, "%s", text)
	}
	var all sync.WaitGroup
	for range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			_, text := ask(client, "GET", "/large.bin", nil)
			expect(len(text) == 3_000_000, "%d bytes", len(text))
		}()
	}
	all.Wait()
}

// frame is a frame of a client, masked with nothing; its length in as few bytes as it takes (RFC 6455 section 5.2).
func frame(first byte, payload []byte) []byte {
	head := []byte{first, 0x80 | byte(min(len(payload), 127))}
	if len(payload) >= 126 {
		expect(len(payload) > 0xffff, "%d bytes", len(payload))
		head = binary.BigEndian.AppendUint64(head, uint64(len(payload)))
	}
	return append(append(head, 0, 0, 0, 0), payload...)
}

// hear reads a frame of the server.
func hear(reader io.Reader) (byte, []byte) {
	head := make([]byte, 2)
	_, err := io.ReadFull(reader, head)
	must("frame", err)
	more := map[byte]int{126: 2, 127: 8}[head[1]]
	length := make([]byte, more)
	_, err = io.ReadFull(reader, length)
	must("frame", err)
	size := 0
	for _, part := range length {
		size = size<<8 | int(part)
	}
	if more == 0 {
		size = int(head[1])
	}
	payload := make([]byte, size)
	_, err = io.ReadFull(reader, payload)
	must("frame", err)
	return head[0], payload
}

// A text, a large message in pieces with a ping between, and the end in good order.
func websocket(config *tls.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := quic.DialAddr(ctx, address, config, &quic.Config{})
	must("connection", err)
	transport := &http3.Transport{}
	client := transport.NewClientConn(connection)
	<-client.ReceivedSettings()
	expect(client.Settings().EnableExtendedConnect, "%+v", client.Settings())
	stream, err := client.OpenRequestStream(ctx)
	must("stream", err)
	request, err := http.NewRequestWithContext(ctx, "CONNECT", "https://"+address+"/echo", nil)
	must("request", err)
	request.Proto = "websocket"
	request.Header.Set("Sec-WebSocket-Version", "13")
	must("request", stream.SendRequestHeader(request))
	response, err := stream.ReadResponse()
	must("response", err)
	expect(response.StatusCode == 200, "%v", response)
	large := strings.Repeat("0123456789abcdef", 40_000)
	go func() {
		for _, piece := range [][]byte{
			frame(0x81, []byte("hello")), frame(0x01, []byte(large[:1])), frame(0x00, []byte(large[1:300_000])), frame(0x89, []byte("there?")),
			frame(0x80, []byte(large[300_000:])),
		} {
			_, err := stream.Write(piece)
			must("frame that is sent", err)
		}
		// The server may have answered the end, and read no further, before this returns.
		_, _ = stream.Write(frame(0x88, []byte{3, 232}))
	}()
	kind, payload := hear(stream)
	expect(kind == 0x81 && string(payload) == "hello", "%x %q", kind, payload)
	kind, payload = hear(stream)
	expect(kind == 0x8a && string(payload) == "there?", "%x", kind)
	text := ""
	for {
		kind, payload = hear(stream)
		text += string(payload)
		if kind&0x80 != 0 {
			break
		}
	}
	expect(text == large, "%d bytes", len(text))
	kind, payload = hear(stream)
	expect(kind == 0x88 && bytes.Equal(payload, []byte{3, 232}), "%x %x", kind, payload)
	rest, err := io.ReadAll(stream)
	expect(err == nil && len(rest) == 0, "%v %x", err, rest)
	must("close", connection.CloseWithError(0x100, ""))
}

// Comes back until the server takes a request of its first packets, or not, as it should be. The tokens prove its address.
func early(config *tls.Config, isTaken bool) {
	config = config.Clone()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(10)
	tokens := quic.NewLRUTokenStore(1, 4)
	for round := range 20 {
		transport := &http3.Transport{TLSClientConfig: config, QUICConfig: &quic.Config{TokenStore: tokens}}
		client := &http.Client{Transport: transport}
		response, text := ask(client, http3.MethodGet0RTT, "/early", nil)
		expect(response.StatusCode == 200, "%v", response)
		must("end", transport.Close())
		if string(text) == "early" {
			expect(isTaken && round > 0, "round %d", round)
			return
		}
	}
	expect(!isTaken, "never taken")
}

func main() {
	address = "127.0.0.1:" + os.Args[1]
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}
	transport := &http3.Transport{TLSClientConfig: config}
	requests(&http.Client{Transport: transport})
	must("end", transport.Close())
	websocket(config)
	early(config, len(os.Args) > 2)
	fmt.Println("good")
}
