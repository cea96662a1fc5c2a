<?php
// Leaves the body alone.
echo $_SERVER['CONTENT_LENGTH'];
