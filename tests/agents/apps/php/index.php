<?php
require_once __DIR__ . '/shop.php';
echo answer($_GET['name'] ?? 'world', 1), "\n";
