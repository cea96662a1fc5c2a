<?php
// As Lumen's own skeleton has it, with routes that show what could go from one request to the next.
require_once '/usr/share/php/Laravel/Lumen/autoload.php';
require_once __DIR__ . '/../app.php';

date_default_timezone_set(env('APP_TIMEZONE', 'UTC'));
putenv('LOG_CHANNEL=stderr');

$app = new Laravel\Lumen\Application(dirname(__DIR__));
$app->withFacades();
$app->configure('app');

$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Handler::class);
$app->singleton(Visits::class);
$app->middleware([AddHeader::class]);

$app->router->get('/', fn () => '<h1>Lumen is up</h1>');
$app->router->get('/hello/{name}', fn ($name) => response()->json(['hello' => $name, 'query' => app('request')->query()]));
$app->router->post('/echo', fn () => response()->json(['sent' => app('request')->all(), 'method' => app('request')->method()], 201));
$app->router->get('/visits', fn () => ['visits' => ++app(Visits::class)->count]);
$app->router->get('/leave', function () {
    config(['app.left' => 'left']);
    app()->instance('left', 'left');
    return 'left';
});
$app->router->get('/seen', fn () => ['config' => config('app.left'), 'bound' => app()->bound('left'), 'path' => app('request')->path(), 'user' => app('request')->header('X-User')]);
$app->router->get('/server', fn () => array_filter($_SERVER, 'is_scalar'));
$app->router->get('/fails', fn () => throw new RuntimeException('on purpose'));
$app->router->get('/exit', fn () => exit('the end'));

return $app;
