'use strict';
// `--require unit-http/loader`: there is nothing to replace, `http` is Node.js's own.
require('./index.js');
