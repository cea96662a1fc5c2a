<?php
// The classes of the Lumen test application.

class Visits
{
    public int $count = 0;
}

class AddHeader
{
    public function handle($request, Closure $next)
    {
        return $next($request)->header('X-Middleware', $request->path());
    }
}

class Handler extends Laravel\Lumen\Exceptions\Handler
{
    public function report(Throwable $thrown) { error_log(get_class($thrown) . ': ' . $thrown->getMessage()); }
}
