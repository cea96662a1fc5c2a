<?php

namespace yii\web;

use Yii;

class Application
{
    public array $params = [];
    private array $components = [];
    private array $definitions;

    public function __construct(private array $config)
    {
        Yii::$app = $this;
        Yii::setAlias('@app', $config['basePath']);
        $this->definitions = $config['components'];
        set_exception_handler(function (\Throwable $exception) {
            http_response_code(500);
            echo 'handled ', $exception->getMessage();
        });
        set_error_handler(static function (int $type, string $message, string $file, int $line): bool {
            throw new \ErrorException($message, 0, $type, $file, $line);
        });
    }

    public function get(string $id): object
    {
        return $this->components[$id] ??= new ($this->definitions[$id]['class'])();
    }

    public function has(string $id, bool $checkInstance = false): bool
    {
        return $checkInstance ? isset($this->components[$id]) : isset($this->definitions[$id]);
    }

    public function set(string $id, object $component): void
    {
        $this->components[$id] = $component;
    }

    public function run(): int
    {
        $request = $this->get('request');
        if ($request->name() !== '') {
            Yii::info('asked ' . $request->name());
        }
        $route = basename($request->path(), '.php') ?: 'index';
        $response = $this->get('response');
        $response->data = (new \app\controllers\Site())->$route($this);
        $response->send();

        return 0;
    }

    public function end(): never
    {
        $this->get('response')->send();
        exit(0);
    }
}
