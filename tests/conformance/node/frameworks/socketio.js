const { createServer } = require('http');
const { Server } = require('socket.io');

const server = createServer();
const io = new Server(server);
io.on('connection', (socket) => {
    socket.join('room');
    socket.on('say', (text, done) => {
        io.to('room').emit('said', `${socket.handshake.address}: ${text}`);
        done(socket.conn.transport.name);
    });
});
server.listen(3000);
