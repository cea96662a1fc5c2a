<?php
// The application of the language contract (`tests/e2e/tests/contract.rs`) in PHP; `resident.php` serves it, too.
function grow(): void {
    ini_set('memory_limit', '-1');
    $GLOBALS['grown'] = str_repeat('x', 200 << 20);
    usleep(500000);
    echo 'grown';
}

function hang(): never {
    while (true) {
        sleep(30);
    }
}

// PHP reads a body in pieces of 8192 bytes.
function echo_body(): void {
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
}

function head(): void {
    http_response_code(201);
    header('Set-Cookie: a=1');
    header('Set-Cookie: b=2', false);
    header('X-Empty:');
    header('X-Back: ' . $_SERVER['HTTP_X_LONG']);
    echo $_SERVER['HTTP_X_SEEN'];
}

function slow(): void {
    echo "first\n";
    flush();
    while (!file_exists(getenv('WORK') . '/go')) {
        usleep(5000);
        clearstatcache();
    }
    echo "second\n";
}

function endless(): void {
    while (true) {
        echo str_repeat('x', 65536);
        flush();
    }
}

function answer(): void {
    while (ob_get_level()) {
        ob_end_flush();
    }
    header('Content-Type: text/plain');
    match (parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
        '/' => print("Hello from PHP\n"),
        '/body' => echo_body(),
        '/head' => head(),
        '/slow' => slow(),
        '/endless' => endless(),
        '/fails' => throw new Exception('asked to fail'),
        '/ends' => posix_kill(getmypid(), 9),
        '/hangs' => hang(),
        '/grows' => grow(),
    };
}

if (!function_exists('tutti_handle_request')) {
    answer();
}
