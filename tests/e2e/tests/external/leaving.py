"""Says what its path says and leaves, by closing the connection or by its end (`exit`): `/silent`, `/message`, `/close` are WebSockets, `/answer` is none."""
import base64, hashlib, os, socket, threading

def serve(connection):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = connection.recv(65536)
        if not piece:
            return
        head += piece
    lines = head.decode().split("\r\n")
    path = lines[0].split(" ")[1]
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
    if path.startswith("/answer"):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast"
    elif "sec-websocket-key" in fields:
        accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        if not path.startswith("/silent"):
            answer += b"\x81\x04last"
        if path.startswith("/close"):
            answer += b"\x88\x05\x0f\xa1bye"
    else:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain"
    connection.sendall(answer)
    if path.endswith("exit"):
        os._exit(3)
    connection.close()

listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])), backlog=64)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
