// Two clients of a room, by the transports that are named; one speaks, both hear it. Run with the address and a transport.
const { io } = require('socket.io-client');

const [address, transport] = process.argv.slice(2);
const options = { transports: [transport], reconnection: false };
const clients = [io(address, options), io(address, options)];
const heard = [];
let by;

function check() {
    if (heard.length === clients.length && by !== undefined) {
        console.log(JSON.stringify({ heard, by }));
        process.exit();
    }
}

for (const client of clients) {
    client.on('connect_error', (error) => {
        console.error(error);
        process.exit(1);
    });
    client.on('said', (text) => {
        heard.push(text);
        check();
    });
}
Promise.all(clients.map((client) => new Promise((resolve) => client.on('connect', resolve)))).then(() => {
    clients[0].emit('say', 'hello', (name) => {
        by = name;
        check();
    });
});
