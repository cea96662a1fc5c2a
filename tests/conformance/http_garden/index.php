<?php
// Tells which request a script is given.
$text = fn(string $bytes): string => preg_replace_callback(
    '/[\x80-\xff]/', fn(array $found): string => chr(0xc0 | ord($found[0]) >> 6) . chr(0x80 | ord($found[0]) & 0x3f), $bytes);
header('Content-Type: application/json');
echo json_encode([
    'stamp' => $_SERVER['HTTP_X_ROUTER'] ?? '', 'method' => $_SERVER['REQUEST_METHOD'], 'target' => $_SERVER['REQUEST_URI'],
    'body' => $text(file_get_contents('php://input')),
], JSON_UNESCAPED_SLASHES), "\n";
