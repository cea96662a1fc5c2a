<?php
// Output in pieces.
while (ob_get_level()) { ob_end_flush(); }
for ($i = 0; $i < 3; $i++) { echo "part $i\n"; flush(); }
