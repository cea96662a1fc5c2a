<?php
if (!function_exists('app')) {
    function app(): Shape\Application
    {
        return Shape\Application::$instance;
    }
}
