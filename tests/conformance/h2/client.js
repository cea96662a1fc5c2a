// Node's HTTP/2 client: node client.js URL. Many requests on one connection, bodies both ways, and what a session reports.
'use strict';
const assert = require('node:assert');
const { createHash, randomBytes } = require('node:crypto');
const http2 = require('node:http2');

const session = http2.connect(process.argv[2], { rejectUnauthorized: false });
session.on('error', (error) => { throw error; });

function ask(headers, body) {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    const answer = { body: [] };
    stream.on('response', (fields) => { answer.fields = fields; });
    stream.on('data', (data) => answer.body.push(data));
    stream.on('error', reject);
    stream.on('end', () => resolve({ fields: answer.fields, body: Buffer.concat(answer.body) }));
    stream.end(body);
  });
}

async function main() {
  const pages = await Promise.all(Array.from({ length: 300 }, () => ask({ ':path': '/small.txt' })));
  for (const page of pages) {
    assert.strictEqual(page.fields[':status'], 200);
    assert.strictEqual(page.body.toString(), 'small');
    assert.strictEqual(page.fields.connection, undefined);
  }
  const large = await ask({ ':path': '/large.bin' });
  assert.strictEqual(large.body.length, 3000000);
  const missing = await ask({ ':path': '/missing' });
  assert.strictEqual(missing.fields[':status'], 404);
  const sent = randomBytes(1500000);
  const digest = createHash('sha1').update(sent).digest('hex');
  for (const length of [{}, { 'content-length': sent.length }]) {
    const echo = await ask({ ':method': 'POST', ':path': '/digest.php', ...length }, sent);
    assert.strictEqual(echo.body.toString(), `HTTP/2.0 ${sent.length} ${digest}`);
  }
  await new Promise((resolve, reject) => session.ping((error) => (error ? reject(error) : resolve())));
  assert.strictEqual(session.remoteSettings.enableConnectProtocol, true);
  await new Promise((resolve) => session.close(resolve));
  console.log('ok');
}
main().catch((error) => { console.error(error); process.exit(1); });
