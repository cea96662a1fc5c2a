<?php
// For `opcache.preload`: one file that is included, one that is only compiled, with classes that cannot be linked yet.
require_once __DIR__ . '/declared.inc';
@opcache_compile_file(__DIR__ . '/kinds.php');
