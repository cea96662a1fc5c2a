<?php

// As Symfony's recipe has it.
require_once dirname(__DIR__) . '/vendor/autoload_runtime.php';

return function (array $context) {
    return require dirname(__DIR__) . '/kernel.php';
};
