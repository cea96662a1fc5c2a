<?php

class ComposerAutoloaderShape
{
    private static ?Closure $loader = null;

    public static function getLoader(): Closure
    {
        if (self::$loader === null) {
            self::$loader = static function (string $class): void {
                if (str_starts_with($class, 'app\\')) {
                    include dirname(__DIR__) . '/' . strtr(substr($class, 4), '\\', '/') . '.php';
                }
            };
            spl_autoload_register(self::$loader, true, true);
        }

        return self::$loader;
    }
}
