'use strict';
// The application of tests/e2e/tests/node_direct.rs: requests and answers of every kind, on a connection in memory or on a socket.
const { AsyncLocalStorage, createHook } = require('async_hooks');
const fs = require('fs');
const http = require('http');

const storage = new AsyncLocalStorage();
const seen = [];
const halves = [];
// The resources of requests that exist, from the first look at them on.
const resources = new Set();
const hook = createHook({
    init: (id, type) => { if (type === 'TUTTIREQUEST') resources.add(id); },
    destroy: (id) => resources.delete(id),
});

function note(text) {
    fs.appendFileSync(`${process.env.WORK}/notes`, `${text}\n`);
}

function hasSocket(request) {
    return request.socket instanceof require('net').Socket;
}

const pages = {
    '/way': (request, response) => response.end(hasSocket(request) ? 'a socket' : 'memory'),
    '/echo': (request, response) => {
        response.setHeader('X-Length', String(request.headers['content-length']));
        request.pipe(response);
    },
    '/count': (request, response) => {
        let count = 0;
        request.on('data', (data) => { count += data.length; });
        request.on('end', () => response.end(`${count} ${request.complete}`));
    },
    '/slow': async (request, response) => {
        let count = 0;
        for await (const data of request) {
            count += data.length;
            await new Promise((resolve) => { setImmediate(resolve); });
        }
        response.end(`${count}`);
    },
    '/large': (request, response) => {
        const piece = Buffer.alloc(100000, 'x');
        let left = 300;
        let waits = 0;
        const more = () => {
            while (left > 0) {
                left--;
                if (!response.write(piece)) {
                    waits++;
                    response.once('drain', more);
                    return;
                }
            }
            response.end(`${waits > 0}`);
        };
        more();
    },
    '/events': (request, response) => {
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        response.write('data: first\n\n');
        const timer = setInterval(() => response.write(`data: more\n\n`), 20);
        response.on('close', () => {
            clearInterval(timer);
            note(`events closed ${response.writableFinished} ${request.destroyed} ${response.destroyed}`);
        });
        request.on('aborted', () => note('events aborted'));
    },
    '/unread': (request, response) => {
        response.statusCode = 401;
        response.end('no');
    },
    '/headers': (request, response) => {
        response.writeHead(203, 'Fine', [['X-A', 'one'], ['X-A', 'two'], ['X-Latin', 'caf\u00e9']]);
        response.end('h\u00e4\u2713');
    },
    '/empty': (request, response) => {
        response.statusCode = Number(request.url.split('?')[1] || 204);
        response.end();
    },
    '/sized': (request, response) => {
        // The whole of the length, and the end much later.
        response.setHeader('Content-Length', '5');
        response.write('whole');
        setTimeout(() => response.end(), 50);
    },
    '/destroy': (request, response) => request.socket.destroy(),
    '/half': (request, response) => {
        response.setHeader('Content-Length', '100');
        response.write('half');
        halves.push(response);
    },
    '/break': (request, response) => {
        for (const half of halves) half.destroy();
        response.end(`${halves.length}`);
    },
    '/context': (request, response) => {
        const before = storage.getStore();
        storage.enterWith(request.url);
        setImmediate(() => response.end(`${before} ${storage.getStore()}`));
    },
    '/resources': (request, response) => {
        hook.enable();
        setImmediate(() => response.end(`${resources.size}`));
    },
    '/timeout': (request, response) => {
        response.setTimeout(30, () => response.end('timed out'));
    },
    '/late': (request, response) => {
        server.on('upgrade', () => {});
        response.end('from now on by a socket');
    },
    '/early': (request, response) => {
        response.writeProcessing();
        response.writeContinue();
        response.end('after others');
    },
    '/encodings': (request, response) => {
        response.write('6869', 'hex');
        response.write('aGk=', 'base64');
        response.write('hi', 'utf16le');
        response.end();
    },
    '/close': (request, response) => {
        response.setHeader('Connection', 'close');
        response.end('closed');
    },
    '/connections': (request, response) => server.getConnections((error, count) => response.end(`${error} ${count}`)),
    '/handled': () => { throw new Error('caught by the process'); },
    '/seen': (request, response) => response.end(seen.join(',')),
    '/process': (request, response) => response.end(String(process.pid)),
    '/leave': (request, response) => {
        server.close(() => process.exit());
        response.end('after the last response');
    },
    '/restart': (request, response) => {
        response.end(String(process.pid), () => server.close(() => setTimeout(() => server.listen(3000), 300)));
    },
};

process.on('uncaughtException', (error) => seen.push(error.message));
const server = http.createServer((request, response) => pages[request.url.split('?')[0]](request, response));
server.on('checkContinue', (request, response) => {
    response.end('asked');
});
server.listen(3000);
