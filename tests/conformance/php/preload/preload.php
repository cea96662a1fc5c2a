<?php
// Compiled into the prototype.
function preloaded(): string { return 'from the prototype'; }
$drawn = [lcg_value(), mt_rand()];
