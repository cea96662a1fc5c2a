// Tells which request a handler is given; as a server by itself it also writes a line for each: seen.js PORT LOG.
const [port, log] = process.argv.slice(2);
const fs = require('node:fs');
const file = log && fs.openSync(log, 'a');

require('node:http').createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
        const seen = {
            stamp: request.headers['x-router'] ?? '', method: request.method, target: request.url, body: Buffer.concat(parts).toString('latin1'),
        };
        const text = JSON.stringify(seen) + '\n';
        if (file) {
            fs.writeSync(file, text);
        }
        response.setHeader('Content-Type', 'application/json');
        response.end(text);
    });
}).listen(Number(port ?? 0), '127.0.0.1');
