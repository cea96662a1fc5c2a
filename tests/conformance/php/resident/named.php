<?php
// A resident script whose handlers have names: PHP keeps them as strings and arrays that it does not count.

class Named
{
    public static function below(int $number, string $text): bool { echo "below: $text;"; return true; }
    public static function boot(int $number, string $text): bool { echo "boot: $text;"; return true; }
    public static function left(int $number, string $text): bool { echo "left: $text;"; return true; }
}

function boot_caught(Throwable $thrown): void { echo 'boot caught ', $thrown->getMessage(); }
function left_caught(Throwable $thrown): void { echo 'left caught ', $thrown->getMessage(); }

const BOOT = ['Named', 'boot'];
set_error_handler(['Named', 'below']);
set_error_handler(BOOT);
set_exception_handler('boot_caught');

while (tutti_handle_request(function () {
    switch ($_GET['case'] ?? '') {
        case 'errors':
            restore_error_handler();
            set_error_handler(['Named', 'left']);
            return;
        case 'below':
            restore_error_handler();
            restore_error_handler();
            set_error_handler(['Named', 'left']);
            set_error_handler(BOOT);
            return;
        case 'exceptions':
            restore_exception_handler();
            set_exception_handler('left_caught');
            return;
    }
    trigger_error('one', E_USER_WARNING);
    restore_error_handler();
    trigger_error('two', E_USER_WARNING);
    throw new Exception('three');
}));
