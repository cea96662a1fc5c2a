<?php
// Tells what a script sees of a request, as the applications beside it do in their languages.
$fields = [];
foreach ($_SERVER as $name => $value) {
    if (str_starts_with($name, 'HTTP_')) {
        $fields[strtolower(strtr(substr($name, 5), '_', '-'))] = $value;
    }
}
echo json_encode([
    'uri' => $_SERVER['REQUEST_URI'], 'path' => $_SERVER['PATH_INFO'] ?? '', 'query' => $_SERVER['QUERY_STRING'],
    'name' => $_SERVER['SERVER_NAME'], 'software' => $_SERVER['SERVER_SOFTWARE'], 'fields' => $fields,
]);
