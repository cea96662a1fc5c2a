// A plain HTTP server: it knows only PORT (or SOCKET, or that it was given descriptor 3).
const http = require('http');
const crypto = require('crypto');

let served = 0;
const server = http.createServer((request, response) => {
    const url = new URL(request.url, 'http://x');
    served += 1;
    if (url.pathname === '/echo') {
        const chunks = [];
        request.on('data', (chunk) => chunks.push(chunk));
        request.on('end', () => {
            const body = Buffer.concat(chunks);
            response.setHeader('Content-Type', 'application/json');
            response.end(JSON.stringify({
                method: request.method, url: request.url, headers: request.headers, length: body.length,
                md5: crypto.createHash('md5').update(body).digest('hex'), pid: process.pid,
                environment: { PORT: process.env.PORT, HOST: process.env.HOST, MINE: process.env.MINE },
            }));
        });
    } else if (url.pathname === '/stream') {
        response.write('one\n');
        // The second part waits until the client asks for it by another request.
        global.go = () => { response.end('two\n'); };
    } else if (url.pathname === '/go') {
        global.go();
        response.end('gone');
    } else if (url.pathname === '/big') {
        response.end(Buffer.alloc(Number(url.searchParams.get('n')), 'x'));
    } else if (url.pathname === '/chunks') {
        for (let i = 0; i < 1000; i++) response.write(`${i}\n`);
        response.end();
    } else if (url.pathname === '/cut') {
        response.writeHead(200, { 'Content-Length': 1000 });
        response.write('only this');
        setImmediate(() => request.socket.destroy());
    } else if (url.pathname === '/silent') {
        request.socket.destroy();
    } else if (url.pathname === '/close') {
        response.setHeader('Connection', 'close');
        response.end('closing');
    } else if (url.pathname === '/status') {
        response.writeHead(Number(url.searchParams.get('code')), { 'X-Own': 'a', 'Set-Cookie': ['a=1', 'b=2'] });
        response.end();
    } else if (url.pathname === '/early') {
        response.writeHead(413);
        response.end('too much');
    } else if (url.pathname === '/hints') {
        response.writeEarlyHints({ link: '</a.css>; rel=preload' });
        response.end('hinted');
    } else if (url.pathname === '/overflow') {
        // More than there is room for around a head.
        response.writeEarlyHints({ link: `</${'a'.repeat(20000)}.css>; rel=preload` });
        response.writeHead(200, { Trailer: 'X-Large', 'X-Own': 'a'.repeat(13000) });
        response.write('whole');
        response.addTrailers({ 'X-Large': 'a'.repeat(4000) });
        response.end();
    } else if (url.pathname === '/crash') {
        process.exit(7);
    } else if (url.pathname === '/hang') {
        console.error('/hang is there');
        request.socket.on('close', () => { console.error('the client of /hang has gone'); });
    } else {
        response.end(`hello ${served > 0}`);
    }
});
if (process.env.LISTEN_FDS === '1') {
    if (process.env.LISTEN_PID !== String(process.pid)) process.exit(9);
    server.listen({ fd: 3 });
} else {
    server.listen(process.env.SOCKET ?? process.env.PORT, process.env.HOST);
}
