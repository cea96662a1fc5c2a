// The endpoints of HttpArena by Express, with `pg` for Postgres.
const fs = require('node:fs');
const express = require('express');
const { Pool } = require('pg');

const items = JSON.parse(fs.readFileSync(process.env.DATASET));
// The profiles allow so many connections altogether.
const connections = Math.floor((process.env.DATABASE_MAX_CONN ?? 256) / (process.env.PROCESSES ?? 64));
const pool = process.env.DATABASE_URL && new Pool({ connectionString: process.env.DATABASE_URL, max: Math.max(1, connections) });

const integer = (value, otherwise) => {
    const number = Number.parseInt(value, 10);
    return Number.isNaN(number) ? otherwise : number;
};
const sum = (query) => integer(query.a, 0) + integer(query.b, 0);

const app = express();
app.get('/baseline11', (request, response) => response.type('text/plain').send(String(sum(request.query))));
app.post('/baseline11', express.text({ type: () => true }), (request, response) => {
    response.type('text/plain').send(String(sum(request.query) + integer(request.body, 0)));
});
app.get('/baseline2', (request, response) => response.type('text/plain').send(String(sum(request.query))));
app.get('/pipeline', (request, response) => response.type('text/plain').send('ok'));

app.get('/json/:count', (request, response) => {
    const factor = integer(request.query.m, 1);
    const chosen = items.slice(0, integer(request.params.count, 0)).map((item) => ({ ...item, total: item.price * item.quantity * factor }));
    response.json({ items: chosen, count: chosen.length });
});

app.post('/upload', async (request, response) => {
    let received = 0;
    for await (const part of request) {
        received += part.length;
    }
    response.type('text/plain').send(String(received));
});

const BETWEEN = `SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count
    FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3`;
app.get('/async-db', async (request, response) => {
    const { min, max, limit } = request.query;
    const values = [integer(min, 10), integer(max, 50), Math.min(50, Math.max(1, integer(limit, 50)))];
    const { rows } = await pool.query({ name: 'between', text: BETWEEN, values });
    const found = rows.map(({ rating_score: score, rating_count: count, ...item }) => ({ ...item, rating: { score, count } }));
    response.json({ items: found, count: found.length });
});

app.listen(process.env.PORT ?? 8080, process.env.HOST);
