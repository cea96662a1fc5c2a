// HttpArena's WebSocket by the package `ws`: it sends back what it gets.
const http = require('node:http');
const { WebSocketServer } = require('ws');

const server = http.createServer((request, response) => response.writeHead(404).end());
new WebSocketServer({ server, path: '/ws' }).on('connection', (socket) => {
    socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary }));
});
server.listen(process.env.PORT ?? 8080, process.env.HOST);
