// Does what tests/conformance/websocket/clients/client.py does, by gorilla/websocket: websocket-client URL [CA-FILE].
package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

var (
	sizes = []int{0, 1, 125, 126, 127, 128, 65535, 65536}
	texts = []string{"Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "𝄞🙂", "\x00\x7f\u0080\u07ff\u0800\uffff\U0010ffff", strings.Repeat("日本語", 1000)}
	codes = []int{1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999}
	large = []int{1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24}
	count int
)

// client is a connection and the pongs that have come.
type client struct {
	*websocket.Conn
	pongs []string
}

func must(err error) {
	if err != nil {
		log.Fatalf("after %d cases: %v", count, err)
	}
}

// connect opens a connection that sends frames of so many bytes.
func connect(frame int) *client {
	dialer := websocket.Dialer{WriteBufferSize: frame, HandshakeTimeout: time.Minute}
	if len(os.Args) > 2 {
		pem, err := os.ReadFile(os.Args[2])
		must(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		dialer.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	conn, _, err := dialer.Dial(os.Args[1], nil)
	must(err)
	must(conn.SetReadDeadline(time.Now().Add(5 * time.Minute)))
	one := &client{Conn: conn}
	conn.SetPongHandler(func(payload string) error {
		one.pongs = append(one.pongs, payload)
		return nil
	})
	return one
}

// same sends a message in these pieces, and waits for it to come back.
func (c *client) same(kind int, pieces ...[]byte) {
	writer, err := c.NextWriter(kind)
	must(err)
	for _, piece := range pieces {
		_, err = writer.Write(piece)
		must(err)
	}
	must(writer.Close())
	got, data, err := c.ReadMessage()
	must(err)
	if message := bytes.Join(pieces, nil); got != kind || !bytes.Equal(data, message) {
		log.Fatalf("%d bytes of kind %d came back as %d of kind %d", len(message), kind, len(data), got)
	}
	count++
}

// closed reads to the end, which must be a close frame of this kind.
func (c *client) closed(code int, reason string) {
	_, _, err := c.ReadMessage()
	var end *websocket.CloseError
	if !errors.As(err, &end) || end.Code != code || end.Text != reason {
		log.Fatalf("closed by %v, not by %d %q", err, code, reason)
	}
	must(c.Close())
	count++
}

func main() {
	one := connect(1 << 20)
	for _, size := range sizes { // 1
		one.same(websocket.TextMessage, bytes.Repeat([]byte("*"), size))
		one.same(websocket.BinaryMessage, bytes.Repeat([]byte{0xfe}, size))
	}
	pings := []string{"", "Hello, world!", strings.Repeat("*", 125)} // 2
	for _, payload := range pings {
		must(one.WriteControl(websocket.PingMessage, []byte(payload), time.Now().Add(time.Minute)))
	}
	must(one.WriteControl(websocket.PongMessage, []byte("unasked"), time.Now().Add(time.Minute)))
	one.same(websocket.TextMessage, []byte("after a pong"))
	if strings.Join(one.pongs, "|") != strings.Join(pings, "|") {
		log.Fatalf("pongs: %q", one.pongs)
	}
	for _, text := range texts { // 6
		one.same(websocket.TextMessage, []byte(text))
	}
	for _, size := range large { // 9
		one.same(websocket.TextMessage, bytes.Repeat([]byte("*"), size))
		random := make([]byte, size)
		_, err := rand.Read(random)
		must(err)
		one.same(websocket.BinaryMessage, random)
	}
	must(one.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, "")))
	one.closed(1000, "")
	// 5 and 10: frames as small as the library makes them.
	for _, frame := range []int{1, 7, 1300} {
		small := connect(frame)
		small.same(websocket.TextMessage, []byte("fragment1"), []byte("fragment2"))
		for _, text := range texts {
			small.same(websocket.TextMessage, []byte(text))
		}
		small.same(websocket.BinaryMessage, bytes.Repeat([]byte("*"), 65536))
		must(small.Close())
	}
	for _, code := range codes { // 7
		ours := connect(4096)
		must(ours.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, "because")))
		ours.closed(code, "because")
		theirs := connect(4096)
		must(theirs.WriteMessage(websocket.TextMessage, []byte(fmt.Sprintf("close %d as you wish", code))))
		theirs.closed(code, "as you wish")
	}
	fmt.Printf("%d cases\n", count)
}
