<?php

use Symfony\Component\HttpFoundation\Request;

$kernel = require __DIR__ . '/../kernel.php';
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
