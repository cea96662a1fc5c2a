<?php
class First
{
    public const IS = 'first';
}

class Second
{
    public const IS = 'second';
}
