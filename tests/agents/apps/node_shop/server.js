const express = require('express');

const app = express();

function double(number) {
    const doubled = number * 2;
    return doubled;
}

function never() {
    return 'not called';
}

app.get('/items/:number', (request, response) => {
    response.send(`item ${request.params.number} of process ${process.pid}, ${double(request.params.number)}\n`);
});
app.get('/fails', () => {
    throw new Error('out of stock');
});
if (process.env.SENTRY_DSN) {
    require('@sentry/node').setupExpressErrorHandler(app);
}
app.listen(3000);
module.exports = never;
