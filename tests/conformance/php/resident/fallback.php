<?php
// The same script resident, classic, and under any other server.
$handler = function () { echo $_SERVER['REQUEST_METHOD'], ' ', $_GET['name'] ?? 'anyone'; };
if (function_exists('tutti_handle_request')) {
    while (tutti_handle_request($handler));
} else {
    $handler();
}
