// A plain HTTP server that echoes the body while it comes.
const http = require('http');

http.createServer((request, response) => {
    if (request.url === '/early') {
        response.writeHead(413);
        response.end('too much');
        return;
    }
    response.setHeader('Content-Type', 'application/octet-stream');
    request.on('data', (piece) => { if (!response.write(piece)) request.pause(); });
    response.on('drain', () => request.resume());
    request.on('end', () => response.end());
    request.on('error', () => console.error('cut short'));
}).listen(process.env.PORT, process.env.HOST);
