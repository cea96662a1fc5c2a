<?php

// Configures static properties, which stay: it must run once in a process.
Shape\Cache::setConfig('default', ['path' => ROOT . DS . 'tmp']);
