"""Serves one connection after the other, the others wait unread. Ends itself after its answer to `/leave`, and of `/die`, which it does not answer."""
import os, socket

with open(os.environ["STARTS"], "a") as starts:
    starts.write("started\n")

def serve(connection):
    while True:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = connection.recv(65536)
            if not piece:
                return
            head += piece
        path = head.split(b" ")[1]
        if path == b"/die":
            os._exit(5)
        closes = path != b"/kept"
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n" + (b"Connection: close\r\n" if closes else b"") + b"\r\nhere")
        if path == b"/leave":
            os._exit(0)
        if closes:
            connection.close()
            return

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=64)
while True:
    serve(listener.accept()[0])
