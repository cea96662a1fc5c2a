<?php echo "hello\n";
