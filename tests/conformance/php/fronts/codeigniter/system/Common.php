<?php

if (!function_exists('esc')) {
    function esc(string $text): string
    {
        return htmlspecialchars($text);
    }
}
