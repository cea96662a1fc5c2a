<?php
// A heavy framework, as its skeleton has it: one route of ten, JSON.
require_once '/usr/share/php/Laravel/Lumen/autoload.php';

date_default_timezone_set('UTC');
$app = new Laravel\Lumen\Application(dirname(__DIR__));
$app->withFacades();
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Laravel\Lumen\Exceptions\Handler::class);
foreach (range(1, 9) as $number) {
    $app->router->get("/section$number/{name}", fn ($name) => response()->json(['name' => $name]));
}
foreach (['/', '/lumen/index.php'] as $path) {
    $app->router->get($path, fn () => response()->json(['framework' => 'lumen', 'query' => app('request')->query()]));
}

return $app;
