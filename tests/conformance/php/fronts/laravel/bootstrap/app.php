<?php

use Shape\Application;

return Application::configure(basePath: dirname(__DIR__))
    ->withRouting(static fn (string $path, string $name): array => [trim($path, '/'), $name])
    ->create();
