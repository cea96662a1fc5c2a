// Tells what the configuration made of this process; `/hold` answers when there is a file `go`.
const fs = require('fs');
const http = require('http');

const work = process.env.WORK;

function tell(response) {
    console.log('to stdout');
    console.error('to stderr');
    response.end(JSON.stringify({
        pid: process.pid, uid: process.geteuid(), gid: process.getegid(), folder: process.cwd(), colour: process.env.COLOUR, home: process.env.HOME, root: fs.readdirSync('/'),
    }));
}

http.createServer((request, response) => {
    if (request.url !== '/hold') {
        tell(response);
        return;
    }
    fs.writeFileSync(`${work}/at-${process.pid}`, '');
    const look = setInterval(() => {
        if (fs.existsSync(`${work}/go`)) {
            clearInterval(look);
            tell(response);
        }
    }, 10);
}).listen();
