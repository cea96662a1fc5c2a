<?php
// The `auto_prepend_file`: collects which lines run, until the script ends; a resident script ends with its process.
use function pcov\{clear, collect, start, stop};

$file = __DIR__ . '/shop.php';
if (extension_loaded('pcov')) {
    start();
    register_shutdown_function(static function () use ($file): void {
        stop();
        save(collect(\pcov\inclusive, [$file])[$file] ?? []);
        clear();
    });
} else {
    xdebug_start_code_coverage(XDEBUG_CC_UNUSED | XDEBUG_CC_DEAD_CODE);
    register_shutdown_function(static fn () => save(xdebug_get_code_coverage()[$file] ?? []));
}

function save(array $lines): void
{
    file_put_contents(__DIR__ . '/out/' . hrtime(true) . '.json', json_encode($lines, JSON_THROW_ON_ERROR | JSON_FORCE_OBJECT));
}
