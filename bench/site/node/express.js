const express = require('express');

const app = express();
app.get('/', (request, response) => response.send('Hello from Express'));
app.listen({ port: process.env.PORT, host: process.env.HOST, backlog: 4096 });
