<?php

namespace CodeIgniter;

use Config\Paths;

class Boot
{
    public static function bootWeb(Paths $paths): int
    {
        if (!defined('APPPATH')) {
            define('APPPATH', realpath($paths->appDirectory) . DIRECTORY_SEPARATOR);
        }
        require_once APPPATH . 'Config/Constants.php';
        require_once $paths->systemDirectory . '/Common.php';
        set_error_handler(static fn (int $type, string $message) => throw new \ErrorException($message));
        $path = trim((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH), '/');
        $name = $_GET['name'] ?? 'nobody';
        if ($path === 'exit') {
            exit("ended $name");
        }
        if ($path === 'fails') {
            throw new \RuntimeException("on purpose: $name");
        }
        header('Content-Type: application/json');
        echo json_encode([$path, $name, esc('<'), APP_NAMESPACE, FCPATH === getcwd() . DIRECTORY_SEPARATOR]);

        return EXIT_SUCCESS;
    }
}
