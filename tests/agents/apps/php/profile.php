<?php
function busy(): void
{
    $end = hrtime(true) + 300_000_000;
    while (hrtime(true) < $end);
}

$profiler = new ExcimerProfiler();
$profiler->setPeriod(0.01);
$profiler->setEventType(EXCIMER_REAL);
$profiler->start();
busy();
$profiler->stop();
// One line for each stack, `FUNCTION;FUNCTION SAMPLES`: the last one is the one that was busy.
echo $profiler->getLog()->formatCollapsed();
