<?php
// Much output; `buffered` keeps it until the end.
if (isset($_GET['buffered'])) { ob_start(); }
for ($i = 0; $i < (int) $_GET['kilobytes']; $i++) { echo str_repeat(chr(97 + $i % 26), 1024); }
