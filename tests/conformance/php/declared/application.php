<?php
class Application
{
    public function __construct(private string $run)
    {
    }

    public function run(): string
    {
        return "application of $this->run";
    }
}

return new Application(RUN);
