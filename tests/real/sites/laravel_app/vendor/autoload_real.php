<?php
require_once 'Illuminate/autoload.php';

final class ApplicationLoader
{
    private static ?self $loader = null;

    public static function get(): self
    {
        if (self::$loader === null) {
            self::$loader = new self();
            spl_autoload_register([self::$loader, 'load']);
        }
        return self::$loader;
    }

    // PSR-4 for `App\`.
    public function load(string $class): void
    {
        $file = dirname(__DIR__) . '/app/' . strtr(substr($class, 4), '\\', '/') . '.php';
        if (str_starts_with($class, 'App\\') && is_file($file)) {
            require $file;
        }
    }
}
