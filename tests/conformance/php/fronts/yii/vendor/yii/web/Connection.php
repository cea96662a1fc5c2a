<?php

namespace yii\web;

/** A connection to a database that tells who it is. */
class Connection
{
    private static int $opened = 0;
    public int $number;
    private bool $inTransaction = false;

    public function __construct()
    {
        $this->number = ++self::$opened;
    }

    public function beginTransaction(): self
    {
        $this->inTransaction = true;

        return $this;
    }

    public function getTransaction(): ?self
    {
        return $this->inTransaction ? $this : null;
    }

    public function getIsActive(): bool
    {
        return $this->inTransaction;
    }

    public function rollBack(): void
    {
        $this->inTransaction = false;
    }
}
