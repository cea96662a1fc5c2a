<?php

namespace yii;

defined('YII_BEGIN_TIME') or define('YII_BEGIN_TIME', microtime(true));
defined('YII2_PATH') or define('YII2_PATH', __DIR__);

/** The helper class of the framework: what applies to the whole process is in its static properties. */
class BaseYii
{
    public static array $classMap = [];
    public static ?web\Application $app = null;
    public static array $aliases = ['@yii' => __DIR__];
    public static ?Container $container = null;
    private static ?log\Logger $_logger = null;

    public static function autoload(string $class): void
    {
        if (isset(static::$classMap[$class])) {
            include static::$classMap[$class];
        }
    }

    public static function setAlias(string $alias, string $path): void
    {
        static::$aliases[$alias] = $path;
    }

    public static function getLogger(): log\Logger
    {
        return self::$_logger ??= static::$container->make(log\Logger::class);
    }

    public static function setLogger(?log\Logger $logger): void
    {
        self::$_logger = $logger;
    }

    public static function info(string $message): void
    {
        static::getLogger()->log($message);
    }
}
