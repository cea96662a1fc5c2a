<?php
// Tells whether opcache works, and is one for all workers.
if (isset($_GET['reset'])) { opcache_reset(); }
$status = opcache_get_status();
echo json_encode(['pid' => getmypid(), 'enabled' => $status['opcache_enabled'] ?? false, 'scripts' => array_keys($status['scripts'] ?? []),
    'hits' => $status['opcache_statistics']['hits'] ?? 0, 'preloaded' => function_exists('preloaded') ? preloaded() : null, 'jit' => $status['jit']['on'] ?? null,
    'pending' => $status['restart_pending'] ?? null, 'restarts' => $status['opcache_statistics']['manual_restarts'] ?? null]);
