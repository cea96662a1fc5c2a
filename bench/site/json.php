<?php
header('Content-Type: application/json');
echo json_encode([
    'id' => 42,
    'name' => 'Tutti',
    'tags' => ['php', 'json', 'bench'],
    'nested' => ['a' => 1, 'b' => [1, 2, 3], 'c' => null, 'd' => 1.5, 'e' => true],
]);
