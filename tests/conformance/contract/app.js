'use strict';

// The application of the language contract (`tests/e2e/tests/contract.rs`) for Node.js, which is also the program that speaks HTTP.
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');

let grown = null;

function echo(request, response) {
    request.on('data', (piece) => { if (!response.write(piece)) request.pause(); });
    response.on('drain', () => request.resume());
    request.on('end', () => response.end());
    request.on('error', () => console.error('cut short'));
}

function head(request, response) {
    response.setHeader('Set-Cookie', ['a=1', 'b=2']);
    response.writeHead(201, { 'X-Empty': '', 'X-Back': request.headers['x-long'] });
    response.end(request.headers['x-seen']);
}

function hints(request, response) {
    response.writeEarlyHints({ link: '</a.css>; rel=preload; as=style' });
    response.setHeader('Trailer', 'X-Sum');
    response.write('whole');
    response.addTrailers({ 'X-Sum': '5' });
    response.end();
}

function slow(request, response) {
    response.write('first\n');
    const timer = setInterval(() => {
        if (fs.existsSync(`${process.env.WORK}/go`)) {
            clearInterval(timer);
            response.end('second\n');
        }
    }, 5);
}

function endless(request, response) {
    const write = () => { while (response.write('x'.repeat(65536)) && !response.destroyed); };
    response.on('drain', write);
    write();
}

function hang() {
    for (;;);
}

function grow(request, response) {
    grown = Buffer.alloc(200 << 20, 'x');
    setTimeout(() => response.end('grown'), 500);
}

const PAGES = {
    '/': (request, response) => {
        response.writeHead(200, { 'Content-Type': 'text/plain' });
        response.end('Hello from Node.js\n');
    },
    '/body': echo,
    '/head': head,
    '/hints': hints,
    '/slow': slow,
    '/endless': endless,
    '/fails': () => { throw new Error('asked to fail'); },
    '/ends': () => process.kill(process.pid, 'SIGKILL'),
    '/hangs': hang,
    '/grows': grow,
};

const server = http.createServer((request, response) => PAGES[request.url](request, response));

// One short text after the other, by hand.
server.on('upgrade', (request, socket) => {
    const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
    const accept = createHash('sha1').update(key).digest('base64');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on('data', (frame) => {
        const said = frame.subarray(6).map((byte, at) => byte ^ frame[2 + at % 4]);
        const answer = frame[0] === 0x88 ? said : Buffer.from(`heard: ${said.toString()}`);
        socket.write(Buffer.concat([Buffer.from([frame[0], answer.length]), answer]));
        if (frame[0] === 0x88) socket.end();
    });
});

server.listen(process.env.PORT || 8080, process.env.HOST);
