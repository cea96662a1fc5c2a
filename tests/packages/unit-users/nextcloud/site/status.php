<?php echo "status of ", $_SERVER["PATH_INFO"] ?? "";
