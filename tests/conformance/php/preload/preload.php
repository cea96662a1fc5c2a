<?php
// Compiled into the prototype.
function preloaded(): string { return 'from the prototype'; }
