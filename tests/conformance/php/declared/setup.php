<?php
// Not the front controller's: once in a process.
class Setup
{
    public static int $runs = 0;
}

Setup::$runs++;
