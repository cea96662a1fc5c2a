'use strict';
// Says what its path says and leaves, by closing the connection or by its end (`exit`): `/silent`, `/message`, `/close` are WebSockets, `/answer` is none.
const { createHash } = require('crypto');
const http = require('http');

function leave(socket, path) {
    if (path.endsWith('exit')) process.exit(3);
    socket.destroy();
}

const server = http.createServer((request, response) => {
    response.end('last', () => request.url.endsWith('exit') && process.exit(3));
});
// Without that listener requests are not relayed.
if (!process.env.DIRECT) server.on('upgrade', (request, socket) => {
    const path = request.url;
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
    let answer = `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`;
    if (!path.startsWith('/silent')) answer += '\x81\x04last';
    if (path.startsWith('/close')) answer += '\x88\x05\x0f\xa1bye';
    socket.write(answer, 'latin1', () => leave(socket, path));
});
server.listen(1);
