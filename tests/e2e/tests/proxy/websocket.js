// A WebSocket echo, from RFC 6455: for the cases of tests/conformance/websocket through the proxy.
'use strict';
const crypto = require('crypto');
const http = require('http');

const MAX = 17 * 1024 * 1024;

class Refused extends Error {
  constructor(code) { super(); this.code = code; }
}

function frame(opcode, payload) {
  const length = payload.length;
  let head;
  if (length < 126) {
    head = Buffer.from([0x80 | opcode, length]);
  } else if (length < 65536) {
    head = Buffer.alloc(4);
    head[0] = 0x80 | opcode; head[1] = 126; head.writeUInt16BE(length, 2);
  } else {
    head = Buffer.alloc(10);
    head[0] = 0x80 | opcode; head[1] = 127; head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

const isCloseCode = (code) =>
  (code >= 1000 && code <= 1011 && ![1004, 1005, 1006].includes(code)) || (code >= 3000 && code <= 4999);

class Socket {
  constructor(stream) {
    this.stream = stream; this.pending = Buffer.alloc(0); this.parts = null; this.kind = 0; this.size = 0; this.closed = false;
    this.decoder = null;
  }

  feed(bytes) {
    this.pending = this.pending.length ? Buffer.concat([this.pending, bytes]) : bytes;
    try { while (!this.closed && this.next()); } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.close(error.code);
    }
  }

  close(code) {
    if (this.closed) return;
    this.closed = true;
    const payload = Buffer.alloc(code ? 2 : 0);
    if (code) payload.writeUInt16BE(code);
    this.stream.write(frame(8, payload));
    this.stream.end();
  }

  next() {
    const b = this.pending;
    if (b.length < 2) return false;
    const final = b[0] & 0x80, opcode = b[0] & 15, masked = b[1] & 0x80;
    let length = b[1] & 127, at = 2;
    if (b[0] & 0x70 || ![0, 1, 2, 8, 9, 10].includes(opcode) || !masked) throw new Refused(1002);
    if (opcode >= 8 && (!final || length > 125)) throw new Refused(1002);
    if (length === 126) { if (b.length < 4) return false; length = b.readUInt16BE(2); at = 4; }
    else if (length === 127) { if (b.length < 10) return false; length = Number(b.readBigUInt64BE(2)); at = 10; }
    if (opcode < 8) {
      if ((opcode === 0) === (this.parts === null)) throw new Refused(1002);
      if (this.size + length > MAX) throw new Refused(1009);
    }
    const kind = opcode === 0 ? this.kind : opcode;
    const whole = b.length >= at + 4 + length;
    if (!whole) {
      // Text that is not UTF-8 is refused before its frame is whole.
      if (kind === 1 && b.length > at + 4) this.check(this.unmask(b, at, Math.min(length, b.length - at - 4)), true);
      return false;
    }
    const payload = this.unmask(b, at, length);
    this.pending = b.subarray(at + 4 + length);
    if (opcode === 8) {
      if (length === 1) throw new Refused(1002);
      if (length >= 2) {
        if (!isCloseCode(payload.readUInt16BE(0))) throw new Refused(1002);
        try { new TextDecoder('utf-8', { fatal: true }).decode(payload.subarray(2)); } catch { throw new Refused(1007); }
      }
      this.close(length >= 2 ? payload.readUInt16BE(0) : 0);
    } else if (opcode === 9) {
      this.stream.write(frame(10, payload));
    } else if (opcode < 8) {
      if (opcode !== 0) { this.parts = []; this.kind = opcode; this.size = 0; }
      this.parts.push(payload); this.size += length;
      if (kind === 1) this.check(payload, !final, true);
      if (final) {
        const message = Buffer.concat(this.parts);
        this.parts = null; this.size = 0;
        this.stream.write(frame(this.kind, message));
      }
    }
    return true;
  }

  unmask(b, at, length) {
    const mask = b.subarray(at, at + 4), payload = Buffer.from(b.subarray(at + 4, at + 4 + length));
    for (let i = 0; i < payload.length; i++) payload[i] ^= mask[i & 3];
    return payload;
  }

  // What has come of a text message so far; `taken` belongs to it already.
  check(piece, more, taken) {
    const parts = taken ? this.parts : [...(this.parts || []), piece];
    const text = parts.length === 1 ? parts[0] : Buffer.concat(parts);
    try { new TextDecoder('utf-8', { fatal: true }).decode(text, { stream: more }); } catch { throw new Refused(1007); }
  }
}

const server = http.createServer((request, response) => response.end('no upgrade\n'));
server.on('upgrade', (request, stream, early) => {
  const accept = crypto.createHash('sha1')
    .update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  stream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
  stream.setNoDelay(true);
  const socket = new Socket(stream);
  stream.on('data', (bytes) => socket.feed(bytes));
  stream.on('error', () => {});
  if (early.length) socket.feed(early);
});
server.listen(Number(process.argv[2]), '127.0.0.1');
