'use strict';
// `require('unit-http/websocket')`: the package `websocket`, whose server works on a server of `http` as it is.
try {
    module.exports = require('websocket');
} catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error('unit-http/websocket: run `npm install websocket` in the application\'s folder', { cause: error });
}
