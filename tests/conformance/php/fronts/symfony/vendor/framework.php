<?php

namespace Shape;

class Loader
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

    public function load(string $class): void
    {
        if ($class === 'App\Kernel') {
            require dirname(__DIR__) . '/src/Kernel.php';
        }
    }
}

class Runtime
{
    private object $app;

    public function __construct(private array $options)
    {
        set_error_handler(static fn (int $type, string $message) => throw new \ErrorException($message));
    }

    public function getResolver(object $app): self
    {
        $this->app = $app;

        return $this;
    }

    public function resolve(): array
    {
        return [$this->app, [['APP_ENV' => 'prod', 'APP_DEBUG' => '0', 'dir' => $this->options['project_dir']] + $_SERVER]];
    }

    public function getRunner(object $app): self
    {
        $this->app = $app;

        return $this;
    }

    public function run(): int
    {
        $this->app->handle();

        return 0;
    }
}
