<?php
// Shows what the interface tells a script.
echo json_encode([
    'server' => $_SERVER, 'get' => $_GET, 'post' => $_POST, 'cookie' => $_COOKIE, 'env' => $_ENV,
    'headers' => getallheaders(), 'apache' => apache_request_headers(), 'cwd' => getcwd(), 'sapi' => PHP_SAPI,
    'getenv' => getenv($_GET['name'] ?? 'REQUEST_URI'), 'included' => get_included_files(), 'file' => __FILE__,
    'filter' => filter_input(INPUT_SERVER, 'REQUEST_METHOD'),
], JSON_INVALID_UTF8_SUBSTITUTE);
