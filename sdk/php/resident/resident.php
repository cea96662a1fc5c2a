<?php

/**
 * Makes a framework's front controller resident, unmodified. Comes with Tutti; `TUTTI_RESIDENT` is the folder it is in:
 *
 *     <?php // resident.php, the `script` of an application with "mode": "resident"
 *     require TUTTI_RESIDENT . '/resident.php';
 *     Tutti\Resident\front_controller(__DIR__ . '/public/index.php');
 *
 * Each function here answers requests until the worker is to leave. Where there is no resident mode (another server, or
 * `mode` left out) it answers the one request there is.
 *
 * @license Apache-2.0
 */

declare(strict_types=1);

namespace Tutti\Resident;

/**
 * Runs the front controller anew for each request, in a scope of its own. What stays is what made its boot expensive: classes, functions, the
 * autoloader, static properties. For every framework, and for front controllers that work for the request themselves (start a session, say).
 * A file that it includes declares once, and the rest of it runs each time, also by `require_once`.
 */
function front_controller(string $front): void
{
    enter($front);
    loop(static function () use ($front): void {
        if (class_exists(\Yii::class, false)) {
            // Yii's logger writes at the end of the request that made it: each makes its own.
            \Yii::setLogger(null);
        }
        (static function () {
            require func_get_arg(0);
        })($front);
    });
}

/**
 * Yii 2: each request gets a new `yii\web\Application` of the configuration, which was read once, like all classes. The components that `$keep`
 * names, connections mostly (`db`, `redis`), go from one application to the next as they are; no transaction does. `Yii::$aliases` and
 * `Yii::$container` go back to what the boot had. `Yii.php` must have been required.
 *
 * @param array<string, mixed> $configuration for `yii\web\Application`
 * @param list<string> $keep names of components
 */
function yii(array $configuration, string $front, array $keep = []): void
{
    enter($front);
    if (!class_exists(\Yii::class, false)) {
        throw new \LogicException('`Yii` is not there: `require` its `Yii.php` before `Tutti\\Resident\\yii()`');
    }
    $aliases = \Yii::$aliases;
    $container = \Yii::$container;
    $kept = [];
    // `exit` ends a request, too: what the last one left is looked at before the next.
    $leave = static function () use (&$kept, $keep): void {
        foreach (\Yii::$app === null ? [] : $keep as $id) {
            if (!\Yii::$app->has($id, true)) {
                continue;
            }
            $kept[$id] = \Yii::$app->get($id);
            while (is_callable([$kept[$id], 'getTransaction']) && $kept[$id]->getTransaction()?->getIsActive()) {
                $kept[$id]->getTransaction()->rollBack();
            }
        }
        \Yii::$app = null;
    };
    loop(static function () use ($configuration, $aliases, $container, $leave, &$kept): void {
        $leave();
        \Yii::$aliases = $aliases;
        \Yii::$container = clone $container;
        // It writes at the end of the request that made it: see Logger::init().
        \Yii::setLogger(null);
        $application = new \yii\web\Application($configuration);
        foreach ($kept as $id => $component) {
            $application->set($id, $component);
        }
        $application->run();
        $leave();
    });
}

/**
 * Slim 3: runs the front controller for the first request and keeps the application it built, with routes, middleware
 * and container. Each later request gets fresh `environment`, `request` and `response` services and goes through
 * `App::run()`. The front controller must leave the application in `$app`, or in the only variable that holds one; its
 * own statements run once.
 */
function slim(string $front): void
{
    enter($front);
    $app = null;
    $fresh = [];
    loop(static function () use ($front, &$app, &$fresh): void {
        if ($app === null) {
            $built = (static function () {
                require func_get_arg(0);
                return get_defined_vars();
            })($front);
            $app = find($built, ['Slim\App'], $front);
            // The factories of services: a container does not reveal them once it has called them, unless asked this way.
            $container = $app->getContainer();
            if (!is_callable([$container, 'raw'])) {
                $app = null;
                throw new \LogicException("`$front` is not for Slim 3, which `Tutti\\Resident\\slim()` is for: use `front_controller()`");
            }
            foreach (['environment', 'request', 'response'] as $service) {
                $fresh[$service] = $container->raw($service);
            }
            return;
        }
        $container = $app->getContainer();
        foreach ($fresh as $service => $make) {
            unset($container[$service]);
            $container[$service] = $make;
        }
        $app->run();
    });
}

/**
 * Lumen: boots the application from its `bootstrap/app.php`, once, and gives each request a copy of it, as its front
 * controller would run it. Services that a request makes live in its copy and go with it; those that the boot has made
 * are shared, except the configuration.
 */
function lumen(string $bootstrap, string $front = ''): void
{
    enter($front !== '' ? $front : dirname($bootstrap, 2) . '/public/index.php');
    $app = (static fn () => require func_get_arg(0))($bootstrap);
    if (!$app instanceof \Laravel\Lumen\Application) {
        throw new \LogicException("`$bootstrap` does not return a Lumen application");
    }
    // Every request needs these: they are made here, before there is one.
    $app->boot();
    $app->make('config');
    loop(static function () use ($app): void {
        $copy = clone $app;
        foreach (['app', \Illuminate\Container\Container::class, \Laravel\Lumen\Application::class, $app::class] as $name) {
            $copy->instance($name, $copy);
        }
        $copy->instance('config', clone $app->make('config'));
        \Illuminate\Container\Container::setInstance($copy);
        $facades = class_exists(\Illuminate\Support\Facades\Facade::class, false);
        if ($facades) {
            \Illuminate\Support\Facades\Facade::clearResolvedInstances();
            \Illuminate\Support\Facades\Facade::setFacadeApplication($copy);
        }
        try {
            $copy->run();
        } finally {
            // Breaks the circles of the copy, so that its memory comes back at once.
            $copy->flush();
            \Illuminate\Container\Container::setInstance($app);
            if ($facades) {
                \Illuminate\Support\Facades\Facade::clearResolvedInstances();
                \Illuminate\Support\Facades\Facade::setFacadeApplication($app);
            }
        }
    });
}

/**
 * Symfony: `$kernel` is an `HttpKernelInterface` that was built and is kept; between two requests the services tagged
 * `kernel.reset` are reset by Symfony itself.
 */
function symfony(\Symfony\Component\HttpKernel\HttpKernelInterface $kernel, string $front): void
{
    enter($front);
    loop(static function () use ($kernel): void {
        $request = \Symfony\Component\HttpFoundation\Request::createFromGlobals();
        $response = $kernel->handle($request);
        $response->send();
        if ($kernel instanceof \Symfony\Component\HttpKernel\TerminableInterface) {
            $kernel->terminate($request, $response);
        }
    });
}

/** Answers each request with `$answer`, or the only one there is. */
function loop(callable $answer): void
{
    if (!function_exists('tutti_handle_request')) {
        $answer();
        return;
    }
    $described = describe();
    while (tutti_handle_request(static function () use ($answer, $described): void {
        $_SERVER = $described() + $_SERVER;
        $answer();
    }));
}

/** From here on relative paths are the front controller's, as they are when a web server runs it. */
function enter(string $front): void
{
    $real = realpath($front);
    if ($real === false) {
        throw new \LogicException("there is no front controller `$front`");
    }
    Front::$file = $real;
    chdir(dirname($real));
}

/** Makes `$_SERVER` name the front controller, not the script that is resident. */
function describe(): \Closure
{
    $name = '/' . basename(Front::$file);
    $fixed = ['SCRIPT_FILENAME' => Front::$file, 'SCRIPT_NAME' => $name, 'DOCUMENT_ROOT' => dirname(Front::$file), 'PHP_SELF' => $name];
    return static function () use ($name, $fixed): array {
        $uri = $_SERVER['REQUEST_URI'] ?? '/';
        if (!str_starts_with($uri, $name . '/')) {
            return $fixed;
        }
        $info = rawurldecode(substr(strstr($uri . '?', '?', true), strlen($name)));
        return ['PATH_INFO' => $info, 'PHP_SELF' => $name . $info] + $fixed;
    };
}

/** The application among the variables of a front controller. */
function find(array $variables, array $classes, string $front): object
{
    $is_one = static fn ($value) => is_object($value) && array_filter($classes, static fn ($class) => $value instanceof $class);
    $found = isset($variables['app']) && $is_one($variables['app']) ? ['app' => $variables['app']] : array_filter($variables, $is_one);
    if (count($found) !== 1) {
        throw new \LogicException("`$front` must leave one " . implode(' or ', $classes) . ' in `$app`');
    }
    return reset($found);
}

/** @internal */
final class Front
{
    public static string $file = '';
}
