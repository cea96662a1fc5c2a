const { WebSocketServer } = require('ws');

// By itself: it makes the server of `http`.
const sockets = new WebSocketServer({ port: 8080 });
sockets.on('connection', (socket, request) => {
    socket.on('error', console.error);
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
    if (request.url === '/who') socket.send(request.socket.remoteAddress);
});
