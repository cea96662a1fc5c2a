<?php
// Debian's extensions are loaded as anywhere else.
$pdo = new PDO('sqlite::memory:');
$pdo->exec('create table t (n int)');
$pdo->exec('insert into t values (42)');
echo json_encode(['row' => $pdo->query('select n from t')->fetchColumn(), 'mb' => mb_strtoupper('ä'), 'loaded' => get_loaded_extensions()]);
