<?php
require __DIR__ . '/shop.php';
$served = 0;
$handler = function () use (&$served): void {
    if (isset($_GET['debug'])) {
        xdebug_connect_to_client();
    }
    echo answer($_GET['name'] ?? 'world', ++$served), "\n";
};
while (tutti_handle_request($handler));
