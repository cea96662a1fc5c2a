<?php
class Tenant
{
    public function name(): string
    {
        return 'tenant a';
    }
}

function tenant(): string
{
    return 'a';
}
