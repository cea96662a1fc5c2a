<?php
// 17.6 KB on Debian 12, as in the published comparison this scenario repeats.
phpinfo(INFO_GENERAL);
