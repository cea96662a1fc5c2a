<?php

return ['required' => ':attribute fehlt.'];
