<?php
// A front controller that requires what declares: each case answers the same in a process of its own and in one that is resident.
set_error_handler(static function (int $type, string $message, string $file, int $line): bool {
    if (!(error_reporting() & $type)) {
        return true;
    }
    throw new ErrorException($message, 0, $type, $file, $line);
});
define('RUN', $_GET['run'] ?? 'none');
define('STARTED', [RUN, microtime(true) > 0]);

class Front
{
    public function __construct(public string $run)
    {
    }
}

function greet(string $name): string
{
    return "hello $name";
}

header('Content-Type: text/plain');
$front = new Front(RUN);
echo greet($front->run), ' ', json_encode(STARTED), ' ';
switch ($_GET['case'] ?? '') {
    case 'kinds':
        require __DIR__ . '/base.php';
        echo json_encode(require __DIR__ . '/kinds.php');
        break;
    case 'relative':
        // By the working folder, and through a folder that is left again.
        echo json_encode(require 'declared.inc');
        echo json_encode(include __DIR__ . '/../declared/other.inc');
        break;
    case 'once':
        $application = require_once __DIR__ . '/application.php';
        $again = require_once __DIR__ . '/application.php';
        echo $application->run(), ' ', json_encode($again);
        break;
    case 'work':
        require_once __DIR__ . '/work.php';
        require_once __DIR__ . '/work.php';
        break;
    case 'nested':
        require __DIR__ . '/nested.php';
        declare_late();
        echo late(), ' ', (new Late())->late();
        break;
    case 'twice':
        require __DIR__ . '/declared.inc';
        require __DIR__ . '/declared.inc';
        break;
    case 'tenant':
        require __DIR__ . '/tenant-' . basename($_GET['tenant']) . '.php';
        echo (new Tenant())->name(), ' ', tenant();
        break;
    case 'alias':
        require __DIR__ . '/aliased.php';
        class_alias(['a' => First::class, 'b' => Second::class][$_GET['of']], 'Chosen');
        echo Chosen::IS;
        break;
    case 'file':
        echo require $_GET['file'];
        break;
    case 'first':
        define('FIRST', RUN);
        echo FIRST, @define('FIRST', 'second') ? 'defined' : 'refused', FIRST;
        break;
    case 'used':
        echo memory_get_usage();
        break;
    case 'fatal':
        str_repeat('x', 1 << 40);
        break;
}
