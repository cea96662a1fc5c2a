<?php
// State that must not go from one request to the next.
$seen = ['cwd' => getcwd(), 'constant' => defined('LEFT'), 'global' => isset($GLOBALS['left']), 'precision' => ini_get('precision'),
    'handler' => set_error_handler(fn () => false) !== null, 'post' => $_POST, 'auth' => $_SERVER['PHP_AUTH_USER'] ?? null, 'zone' => date_default_timezone_get()];
if (isset($_GET['leave'])) {
    define('LEFT', 1); $GLOBALS['left'] = 1; ini_set('precision', '3'); chdir('/'); date_default_timezone_set('Asia/Tokyo'); mb_internal_encoding('ISO-8859-1');
}
echo json_encode($seen + ['memory' => memory_get_usage()]);
