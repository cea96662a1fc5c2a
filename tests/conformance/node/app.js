'use strict';
// The application of tests/e2e/tests/node.rs: what Node.js shows of a request, and what may go wrong in one.
const cluster = require('cluster');
const dgram = require('dgram');
const fs = require('fs');
const http = require('http');
const net = require('net');
const { Worker } = require('worker_threads');

const start = { calls: [] };

function told(request, body) {
    const { socket } = request;
    return {
        pid: process.pid, method: request.method, url: request.url, headers: request.headers, rawHeaders: request.rawHeaders,
        distinct: request.headersDistinct, body,
        socket: {
            remoteAddress: socket.remoteAddress, remoteFamily: socket.remoteFamily, remotePort: socket.remotePort,
            localAddress: socket.localAddress, localFamily: socket.localFamily, localPort: socket.localPort,
            encrypted: socket.encrypted, address: socket.address(),
        },
        version: request.httpVersion, address: server.address(), listening: server.listening, start,
        arguments: process.argv.slice(2), script: process.argv[1], options: process.env.NODE_OPTIONS, told: process.env.TUTTI_NODE,
        mine: process.env.MINE, port: process.env.PORT, execArgv: process.execArgv, folder: process.cwd(),
        cluster: { primary: cluster.isPrimary, master: cluster.isMaster, worker: cluster.isWorker, id: cluster.worker.id },
    };
}

const pages = {
    '/': (request, response) => response.end(`hello from ${process.pid}`),
    '/told': (request, response) => {
        const chunks = [];
        request.on('data', (chunk) => chunks.push(chunk));
        request.on('end', () => response.end(JSON.stringify(told(request, Buffer.concat(chunks).toString()))));
    },
    '/throw': () => { throw new Error('thrown in a request'); },
    '/exit': () => process.exit(3),
    '/loop': () => { for (;;); },
    '/never': () => console.log('this request gets no answer'),
    '/fork': (request, response) => {
        try {
            cluster.fork();
        } catch (error) {
            response.end(error.message);
        }
    },
    '/thread': (request, response) => {
        const script = 'const http = require("http"); require("worker_threads").parentPort.postMessage(Object.hasOwn(http.Server.prototype, "listen"))';
        new Worker(script, { eval: true }).once('message', (isOurs) => response.end(`ours in a thread: ${isOurs}`));
    },
    '/child': (request, response) => {
        const script = 'require("http").createServer().listen(0, "127.0.0.1", function () { console.log(this.address().port > 0); process.exit(); })';
        require('child_process').execFile(process.execPath, ['-e', script], (error, out) => response.end(`a port: ${out.trim()}`));
    },
    // Servers beside the first: each listens for real, and answers.
    '/others': (request, response) => {
        const second = http.createServer((_, answer) => answer.end('second')).listen(0, '127.0.0.1', () => {
            http.get({ port: second.address().port, host: '127.0.0.1' }, (answer) => {
                answer.on('data', (data) => {
                    second.close();
                    second.closeAllConnections();
                    const raw = net.createServer((socket) => socket.end('raw')).listen(0, '127.0.0.1', () => {
                        net.connect(raw.address().port, '127.0.0.1').on('data', (more) => {
                            raw.close();
                            const datagrams = dgram.createSocket('udp4').bind(0, '127.0.0.1', () => {
                                const isBound = datagrams.address().port > 0;
                                datagrams.close();
                                response.end(`${data} ${more} ${isBound}`);
                            });
                        });
                    });
                });
            });
        });
    },
    // More than any client takes.
    '/endless': (request, response) => {
        const write = () => {
            while (response.write('x'.repeat(65536)));
        };
        response.on('drain', write).on('close', () => fs.appendFileSync(`${process.env.WORK}/gone`, `${process.pid} gone\n`));
        write();
    },
    '/sometimes': (request, response) => {
        if (Math.random() < 1 / 40) process.exit(3);
        pages['/'](request, response);
    },
    '/grow': (request, response) => {
        global.kept = Buffer.alloc(100 << 20, 1);
        response.end(`hello from ${process.pid}`);
    },
};

const server = http.createServer((request, response) => pages[request.url.split('?')[0]](request, response));
server.keepAliveTimeout = 1;
server.on('listening', () => start.calls.push('event'));
const given = JSON.parse(process.env.LISTEN || '[]');
const before = server.address();
start.returned = server.listen(...given, () => start.calls.push('callback')) === server;
start.before = before;
process.on('exit', () => {
    if (process.env.WORK) fs.appendFileSync(`${process.env.WORK}/ended`, `${process.pid} ended\n`);
});
