<?php

namespace App;

class Kernel
{
    private array $left = [];

    public function __construct(private string $environment, private bool $debug)
    {
    }

    public function handle(): void
    {
        $path = trim((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
        $name = $_GET['name'] ?? 'nobody';
        if ($path === 'exit') {
            exit("ended $name");
        }
        if ($path === 'fails') {
            throw new \RuntimeException("on purpose: $name");
        }
        header('Content-Type: application/json');
        echo json_encode([$path, $name, $this->environment, $this->debug, $this->left]);
        $this->left[] = $name;
    }
}
