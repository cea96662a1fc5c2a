<?php
usleep(500000);
echo "slept\n";
