<?php echo "updater";
