<?php
// Echoes the body while it comes: PHP reads it in pieces of 8192 bytes.
ignore_user_abort(true);
header('Content-Type: application/octet-stream');
$body = fopen('php://input', 'r');
while (($piece = fread($body, 8192)) !== false && $piece !== '') {
    echo $piece;
    flush();
}
if (connection_aborted()) {
    error_log('cut short');
}
