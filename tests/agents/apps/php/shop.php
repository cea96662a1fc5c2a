<?php
function answer(string $name, int $served): string
{
    $greeting = "Hello, $name";
    $count = $served * 10;
    return "$greeting, $count";
}

function never(): string
{
    return 'not called';
}
