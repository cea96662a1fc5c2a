package unit

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// requestContext is a request's context: done when the client has gone or the handler has returned. What most handlers
// never look at is made when it is asked for.
type requestContext struct {
	call *call

	mu    sync.Mutex
	done  chan struct{}
	err   error
	after map[*func()]struct{}
}

var closedChannel = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

func (c *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.err != nil {
			c.done = closedChannel
		} else {
			c.done = make(chan struct{})
		}
	}
	return c.done
}

func (c *requestContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *requestContext) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return c.call.worker.server
	case http.LocalAddrContextKey:
		return c.call.localAddress()
	}
	return nil
}

// AfterFunc lets package context derive from this without a goroutine that waits.
func (c *requestContext) AfterFunc(f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	if c.after == nil {
		c.after = map[*func()]struct{}{}
	}
	key := &f
	c.after[key] = struct{}{}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.after[key]
		delete(c.after, key)
		return waits
	}
}

func (c *requestContext) cancel() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = context.Canceled
	if c.done != nil {
		close(c.done)
	}
	after := c.after
	c.after = nil
	c.mu.Unlock()
	for f := range after {
		go (*f)()
	}
}

// address is that of one side of the connection.
type address struct {
	host string
	port uint16
}

func (a address) netAddr() net.Addr {
	ip := net.ParseIP(a.host)
	if ip == nil {
		return &net.UnixAddr{Name: a.host, Net: "unix"}
	}
	return &net.TCPAddr{IP: ip, Port: int(a.port)}
}
