"""A WebSocket server of nothing but the standard library: what it echoes, it echoes as it came."""
import base64, hashlib, os, socket, struct, threading

def receive(connection, count):
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)

def unmask(data, mask):
    number = int.from_bytes(data, "little") ^ int.from_bytes((mask * (len(data) // 4 + 1))[:len(data)], "little")
    return number.to_bytes(len(data), "little")

def send(connection, opcode, payload, final=True):
    head = bytes([opcode | (0x80 if final else 0)])
    if len(payload) < 126:
        head += bytes([len(payload)])
    elif len(payload) < 65536:
        head += struct.pack("!BH", 126, len(payload))
    else:
        head += struct.pack("!BQ", 127, len(payload))
    connection.sendall(head + payload)

def serve(connection):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += receive(connection, 1)
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
    fields = {name.lower(): value for name, value in fields.items()}
    if head.startswith(b"GET /no "):
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        return connection.close()
    if "upgrade" not in fields:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
        return connection.close()
    accept = base64.b64encode(hashlib.sha1((fields["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
    connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: " + accept + b"\r\nSec-WebSocket-Protocol: chat\r\n\r\n")
    message, kind = b"", 0
    while True:
        first, second = receive(connection, 2)
        length = second & 127
        assert second & 128, "a client's frames are masked"
        if length == 126:
            length = struct.unpack("!H", receive(connection, 2))[0]
        elif length == 127:
            length = struct.unpack("!Q", receive(connection, 8))[0]
        mask = receive(connection, 4)
        payload = unmask(receive(connection, length), mask)
        opcode = first & 15
        if opcode == 8:
            send(connection, 8, payload)
            return connection.close()
        if opcode in (1, 2):
            message, kind = payload, opcode
        elif opcode == 0:
            message += payload
        elif opcode == 10:
            send(connection, 1, b"pong: " + payload)
            continue
        else:
            continue
        if message == b"bye":
            send(connection, 8, struct.pack("!H", 4001) + b"as you wish")
        elif message == b"ping":
            send(connection, 9, b"are you there")
        elif message == b"pong":
            send(connection, 10, b"still here")
        elif message == b"pieces":
            send(connection, 1, b"pie", final=False)
            send(connection, 0, b"ces")
        else:
            send(connection, kind, message)

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(os.environ["PORT"])))
listener.listen(64)
while True:
    connection, _ = listener.accept()
    def handle(connection=connection):
        try:
            serve(connection)
        except EOFError:
            connection.close()
    threading.Thread(target=handle, daemon=True).start()
