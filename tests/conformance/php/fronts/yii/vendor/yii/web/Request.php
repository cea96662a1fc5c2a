<?php

namespace yii\web;

/** Reads `$_SERVER` and `$_GET` once and keeps what they said. */
class Request
{
    private ?string $name = null;
    private ?string $path = null;

    public function name(): string
    {
        return $this->name ??= $_GET['name'] ?? '';
    }

    public function path(): string
    {
        return $this->path ??= (string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
    }
}
