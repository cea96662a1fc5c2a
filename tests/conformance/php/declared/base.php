<?php
namespace Shop;

abstract class Base
{
    abstract public function price(): int;
}
