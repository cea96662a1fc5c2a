<?php
// The endpoints of HttpArena in plain PHP. Tutti boots this script once in each process; under FPM it runs for each request.
declare(strict_types=1);

$items = json_decode(file_get_contents(getenv('DATASET')), true, flags: JSON_THROW_ON_ERROR);

function text(int|string $body): void
{
    header('Content-Type: text/plain');
    echo $body;
}

function sum(): int
{
    return (int) ($_GET['a'] ?? 0) + (int) ($_GET['b'] ?? 0);
}

function received(): int
{
    $body = fopen('php://input', 'rb');
    for ($bytes = 0; !feof($body); $bytes += strlen(fread($body, 65536)));
    return $bytes;
}

function listed(array $items, int $count): void
{
    $factor = (int) ($_GET['m'] ?? 1);
    $chosen = [];
    foreach (array_slice($items, 0, $count) as $item) {
        $chosen[] = [...$item, 'total' => $item['price'] * $item['quantity'] * $factor];
    }
    header('Content-Type: application/json');
    echo json_encode(['items' => $chosen, 'count' => count($chosen)], JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES);
}

$handler = function () use ($items): void {
    $path = strtok($_SERVER['REQUEST_URI'], '?');
    match (true) {
        $path === '/baseline11' => text(sum() + (int) file_get_contents('php://input')),
        $path === '/baseline2' => text(sum()),
        $path === '/pipeline' => text('ok'),
        $path === '/upload' && $_SERVER['REQUEST_METHOD'] === 'POST' => text(received()),
        preg_match('~^/json/(\d+)$~D', $path, $found) === 1 => listed($items, (int) $found[1]),
        default => http_response_code(404),
    };
};

if (function_exists('tutti_handle_request')) {
    while (tutti_handle_request($handler));
} else {
    $handler();
}
