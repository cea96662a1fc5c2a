// Applications as people write them, on libraries they use, unmodified but for one line: unit.ListenAndServe instead of
// http.ListenAndServe (or gin's Run, or echo's Start).
package main

import (
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"

	coder "github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/gin-gonic/gin"
	gorilla "github.com/gorilla/websocket"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	unit "unit.nginx.org/go"
)

//go:embed templates
var templates embed.FS

func main() {
	addr := ":8080"
	if len(os.Args) > 1 {
		addr = os.Args[1]
	}
	mux := http.NewServeMux()
	mux.Handle("/gin/", http.StripPrefix("/gin", ginApplication()))
	mux.Handle("/echo/", http.StripPrefix("/echo", echoApplication()))
	hub := newHub()
	mux.HandleFunc("/chat", hub.serve)
	mux.HandleFunc("/gorilla", gorillaEcho)
	mux.HandleFunc("/coder", coderEcho)
	mux.HandleFunc("/events", events)
	mux.Handle("/proxy/", proxy())
	log.Fatal(unit.ListenAndServe(addr, mux))
}

func ginApplication() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(gin.Recovery())
	router.SetHTMLTemplate(template.Must(template.ParseFS(templates, "templates/*.html")))
	type note struct {
		Title string `json:"title" form:"title" binding:"required"`
		Text  string `json:"text" form:"text"`
	}
	var mu sync.Mutex
	var notes []note
	router.GET("/notes", func(c *gin.Context) {
		mu.Lock()
		defer mu.Unlock()
		c.HTML(http.StatusOK, "notes.html", gin.H{"notes": notes, "client": c.ClientIP()})
	})
	router.POST("/notes", func(c *gin.Context) {
		var fresh note
		if err := c.ShouldBind(&fresh); err != nil {
			c.JSON(http.StatusBadRequest, gin.H{"error": err.Error()})
			return
		}
		mu.Lock()
		notes = append(notes, fresh)
		mu.Unlock()
		c.Redirect(http.StatusSeeOther, "/gin/notes")
	})
	router.GET("/notes/:number", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"number": c.Param("number")}) })
	router.POST("/upload", func(c *gin.Context) {
		file, err := c.FormFile("file")
		if err != nil {
			c.String(http.StatusBadRequest, err.Error())
			return
		}
		opened, err := file.Open()
		if err != nil {
			c.String(http.StatusInternalServerError, err.Error())
			return
		}
		defer opened.Close()
		count, err := io.Copy(io.Discard, opened)
		c.String(http.StatusOK, "%s %d %v", file.Filename, count, err)
	})
	router.GET("/stream", func(c *gin.Context) {
		count := 0
		c.Stream(func(w io.Writer) bool {
			count++
			fmt.Fprintf(w, "line %d\n", count)
			return count < 5
		})
	})
	router.GET("/panic", func(c *gin.Context) { panic("recovered by gin") })
	return router
}

func echoApplication() http.Handler {
	e := echo.New()
	e.Use(middleware.Gzip(), middleware.RequestID())
	e.GET("/hello/:name", func(c echo.Context) error { return c.String(http.StatusOK, "Hello, "+c.Param("name")) })
	e.GET("/large", func(c echo.Context) error {
		list := make([]string, 2000)
		for index := range list {
			list[index] = fmt.Sprintf("entry %d", index)
		}
		return c.JSON(http.StatusOK, list)
	})
	e.GET("/error", func(c echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "short and stout") })
	return e
}

// hub is the chat example of gorilla/websocket in short: a room, and a goroutine each for reading and writing.
type hub struct {
	mu      sync.Mutex
	clients map[chan []byte]struct{}
}

func newHub() *hub { return &hub{clients: map[chan []byte]struct{}{}} }

var upgrader = gorilla.Upgrader{ReadBufferSize: 1024, WriteBufferSize: 1024, Subprotocols: []string{"chat"}, EnableCompression: true}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	const pongWait, pingPeriod = 60 * time.Second, 50 * time.Second
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	send := make(chan []byte, 256)
	h.mu.Lock()
	h.clients[send] = struct{}{}
	h.mu.Unlock()
	go func() {
		ticker := time.NewTicker(pingPeriod)
		defer ticker.Stop()
		defer conn.Close()
		for {
			select {
			case message, ok := <-send:
				conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
				if !ok {
					conn.WriteMessage(gorilla.CloseMessage, []byte{})
					return
				}
				if conn.WriteMessage(gorilla.TextMessage, message) != nil {
					return
				}
			case <-ticker.C:
				conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
				if conn.WriteMessage(gorilla.PingMessage, nil) != nil {
					return
				}
			}
		}
	}()
	conn.SetReadLimit(1 << 20)
	conn.SetReadDeadline(time.Now().Add(pongWait))
	conn.SetPongHandler(func(string) error { return conn.SetReadDeadline(time.Now().Add(pongWait)) })
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			break
		}
		h.mu.Lock()
		for client := range h.clients {
			select {
			case client <- message:
			default:
			}
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	delete(h.clients, send)
	h.mu.Unlock()
	close(send)
}

func gorillaEcho(w http.ResponseWriter, r *http.Request) {
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		kind, reader, err := conn.NextReader()
		if err != nil {
			return
		}
		writer, err := conn.NextWriter(kind)
		if err != nil {
			return
		}
		if _, err := io.Copy(writer, reader); err != nil {
			return
		}
		if err := writer.Close(); err != nil {
			return
		}
	}
}

// coderEcho echoes messages; JSON ones with an answer of their own.
func coderEcho(w http.ResponseWriter, r *http.Request) {
	conn, err := coder.Accept(w, r, &coder.AcceptOptions{Subprotocols: []string{"echo"}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(32 << 20)
	if r.URL.Query().Has("json") {
		var question map[string]any
		if err := wsjson.Read(r.Context(), conn, &question); err != nil {
			return
		}
		wsjson.Write(r.Context(), conn, map[string]any{"asked": question})
		conn.Close(coder.StatusNormalClosure, "answered")
		return
	}
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil {
			var closed coder.CloseError
			if errors.As(err, &closed) {
				log.Printf("coder: closed with %d %q", closed.Code, closed.Reason)
			}
			return
		}
		if err := conn.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

// events are server-sent events, until the client goes: the context tells, or the write that comes first.
func events(w http.ResponseWriter, r *http.Request) {
	defer log.Print("events: the client has gone")
	w.Header().Set("Content-Type", "text/event-stream")
	controller := http.NewResponseController(w)
	for count := 1; ; count++ {
		if _, err := fmt.Fprintf(w, "data: %d\n\n", count); err != nil {
			return
		}
		if controller.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// proxy is a reverse proxy to another server.
func proxy() http.Handler {
	target, err := url.Parse(os.Getenv("BACKEND"))
	if err != nil || target.Host == "" {
		return http.NotFoundHandler()
	}
	return httputil.NewSingleHostReverseProxy(target)
}
