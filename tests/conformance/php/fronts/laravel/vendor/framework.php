<?php

namespace Shape;

class Request
{
    private function __construct(public string $path, public string $name)
    {
    }

    public static function capture(): self
    {
        return new self((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), $_GET['name'] ?? 'nobody');
    }
}

class Application
{
    public static ?self $instance = null;
    public array $bound = [];
    private \Closure $routes;

    private function __construct(public string $basePath)
    {
        self::$instance = $this;
        set_error_handler(static fn (int $type, string $message) => throw new \ErrorException($message));
    }

    public static function configure(string $basePath): self
    {
        return new self($basePath);
    }

    public function withRouting(\Closure $routes): self
    {
        $this->routes = $routes;

        return $this;
    }

    public function create(): self
    {
        return $this;
    }

    public function handleRequest(Request $request): void
    {
        $path = trim($request->path, '/');
        if ($path === 'exit') {
            exit("ended $request->name");
        }
        if ($path === 'fails') {
            throw new \RuntimeException("on purpose: $request->name");
        }
        $left = $this->bound;
        $this->bound[] = $request->name;
        header('Content-Type: application/json');
        echo json_encode([($this->routes)($request->path, $request->name), $left, \app() === $this, microtime(true) - LARAVEL_START < 60]);
    }
}
