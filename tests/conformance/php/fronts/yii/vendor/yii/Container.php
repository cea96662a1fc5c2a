<?php

namespace yii;

class Container
{
    private array $singletons = [];

    public function make(string $class): object
    {
        return new $class();
    }

    public function setSingleton(string $class, object $instance): void
    {
        $this->singletons[$class] = $instance;
    }

    public function has(string $class): bool
    {
        return isset($this->singletons[$class]);
    }
}
