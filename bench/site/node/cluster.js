// The script of the first argument in as many processes as the second says, as Node.js's own documents have it.
const cluster = require('node:cluster');

const [script, workers] = process.argv.slice(2);
if (cluster.isPrimary) {
    for (let worker = 0; worker < Number(workers); worker += 1) {
        cluster.fork();
    }
} else {
    require(script);
}
