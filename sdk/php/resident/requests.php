<?php

/**
 * Lets a resident script answer requests without a server, for debuggers that are programs of their own. Comes with Tutti:
 *
 *     phpdbg -e /usr/share/tutti/php/requests.php
 *     prompt> break shop.php:4
 *     prompt> run resident.php /?name=Anna "POST /cart item=tea"
 *
 * The script boots once, and `tutti_handle_request()` gives it one request after the other, each from an argument: `[METHOD ]TARGET[ BODY]`.
 * Responses are printed. There is no worker around the script: `php://input` is empty, and nothing is reset between requests but superglobals.
 *
 * @license Apache-2.0
 */

declare(strict_types=1);

if (($argv[1] ?? '') === '') {
    fwrite(STDERR, "usage: requests.php RESIDENT-SCRIPT ['[METHOD ]TARGET[ BODY]'...]\n");
    exit(2);
}
defined('TUTTI_RESIDENT') or define('TUTTI_RESIDENT', __DIR__);

function tutti_handle_request(callable $handler): bool
{
    static $requests = null, $base = null;
    $requests ??= array_slice($GLOBALS['argv'], 2);
    $base ??= array_diff_key($_SERVER, ['argv' => 0, 'argc' => 0]);
    if ($requests === []) {
        return false;
    }
    $words = explode(' ', array_shift($requests), 3);
    if (str_starts_with($words[0], '/')) {
        array_unshift($words, 'GET');
    }
    [$method, $target, $body] = $words + ['GET', '/', ''];
    $query = explode('?', $target, 2)[1] ?? '';
    $_SERVER = [
        'REQUEST_METHOD' => $method, 'REQUEST_URI' => $target, 'QUERY_STRING' => $query, 'SERVER_PROTOCOL' => 'HTTP/1.1',
        'HTTP_HOST' => 'localhost', 'SERVER_NAME' => 'localhost', 'SERVER_PORT' => '80', 'REMOTE_ADDR' => '127.0.0.1',
    ] + $base;
    parse_str($query, $_GET);
    parse_str($body, $_POST);
    $_COOKIE = $_FILES = [];
    $_REQUEST = $_POST + $_GET;
    try {
        $handler();
    } catch (Throwable $error) {
        // As in a server, it ends the request and not the script.
        fwrite(STDERR, "uncaught $error\n");
    }
    return true;
}

(static function (): void {
    require func_get_arg(0);
})(realpath($argv[1]) ?: $argv[1]);
