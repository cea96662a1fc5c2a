<?php
class Tenant
{
    public function name(): string
    {
        return 'tenant b';
    }
}

function tenant(): string
{
    return 'b';
}
