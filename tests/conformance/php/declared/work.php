<?php
// The whole work, as some front controllers have it in one file that they require once.
require_once __DIR__ . '/setup.php';

class Work
{
    public static function of(string $run): string
    {
        return "work of $run, " . Setup::$runs;
    }
}

echo Work::of(RUN);
