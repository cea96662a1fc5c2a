<?php echo "front ", $_SERVER["SCRIPT_NAME"], " ", $_SERVER["DOCUMENT_ROOT"];
