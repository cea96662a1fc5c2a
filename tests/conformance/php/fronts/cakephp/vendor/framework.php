<?php

namespace Shape;

class Cache
{
    private static array $configured = [];

    public static function setConfig(string $key, array $config): void
    {
        if (isset(self::$configured[$key])) {
            throw new \BadMethodCallException("Cannot reconfigure existing key `$key`.");
        }
        self::$configured[$key] = $config;
    }

    public static function configured(): array
    {
        return array_keys(self::$configured);
    }
}

class Application
{
    public function __construct(private string $configDir)
    {
    }

    public function bootstrap(): void
    {
        require $this->configDir . '/paths.php';
        require_once $this->configDir . '/bootstrap.php';
    }
}

class Server
{
    public function __construct(private Application $app)
    {
        set_error_handler(static fn (int $type, string $message) => throw new \ErrorException($message));
    }

    public function run(): array
    {
        $this->app->bootstrap();
        $path = trim((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
        $name = $_GET['name'] ?? 'nobody';
        if ($path === 'exit') {
            exit("ended $name");
        }
        if ($path === 'fails') {
            throw new \RuntimeException("on purpose: $name");
        }

        return [$path, $name, Cache::configured(), basename(CONFIG)];
    }

    public function emit(array $response): void
    {
        header('Content-Type: application/json');
        echo json_encode($response);
    }
}
