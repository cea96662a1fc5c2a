<?php

namespace yii\log;

/** Collects messages and writes them at the end of the script that made it. */
class Logger
{
    private array $messages = [];

    public function __construct()
    {
        register_shutdown_function(function () {
            $this->flush();
            register_shutdown_function([$this, 'flush'], true);
        });
    }

    public function log(string $message): void
    {
        $this->messages[] = $message;
    }

    public function flush(bool $final = false): void
    {
        foreach ($this->messages as $message) {
            error_log("flushed: $message");
        }
        $this->messages = [];
    }
}
