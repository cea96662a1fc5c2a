<?php
// A resident script: boots once, then does what `case` says.
namespace Resident;

$booted = (object) ['at' => microtime(true), 'pid' => getmypid(), 'count' => 0, 'server' => $_SERVER, 'get' => $_GET, 'method' => $_SERVER['REQUEST_METHOD'] ?? null];
if (getenv('BOOT') === 'settings') {
    // Whatever the boot sets is what every request starts with.
    ini_set('precision', '5');
    error_reporting(E_ALL & ~E_USER_NOTICE);
    date_default_timezone_set('Europe/Vienna');
    mb_internal_encoding('ISO-8859-15');
    setlocale(LC_CTYPE, 'C');
    chdir('/');
    putenv('BOOTED=yes');
    umask(027);
    set_error_handler(fn (int $number, string $text) => print("boot: $text;"));
    set_exception_handler(fn (\Throwable $thrown) => print('boot caught ' . $thrown->getMessage()));
    register_shutdown_function(fn () => print('the boot is over'));
    session_set_save_handler(new class implements \SessionHandlerInterface {
        private static array $kept = [];
        public function open($path, $name): bool { return true; }
        public function close(): bool { return true; }
        public function read($id): string { return self::$kept[$id] ?? ''; }
        public function write($id, $data): bool { self::$kept[$id] = $data; return true; }
        public function destroy($id): bool { unset(self::$kept[$id]); return true; }
        public function gc($max): int { return 0; }
    });
}
if (getenv('BOOT') === 'functions') {
    keep_sessions_by('Resident\\read_as_booted');
}
if (getenv('BOOT') === 'output') {
    header('X-Boot: 1');
    ob_start();
    echo 'written while booting';
}
if (getenv('BOOT') === 'vain') {
    // A request alone can do this.
    session_save_path(getenv('SESSIONS'));
    session_start();
    $_SESSION['count'] = 40;
    header('X-Frame-Options: DENY');
    ob_start();
}

function yes(): bool { return true; }
function nothing(): int { return 0; }
function read_as_booted(): string { return 'from|s:4:"boot";'; }
function read_otherwise(): string { return 'from|s:7:"request";'; }

/** PHP 8.4 and later warn of functions in place of an object. */
function keep_sessions_by(string $read): void
{
    @session_set_save_handler('Resident\\yes', 'Resident\\yes', $read, 'Resident\\yes', 'Resident\\yes', 'Resident\\nothing');
}

/** The next part of a text that was begun; PHP 8.3 and later warn where there is none. */
function token()
{
    set_error_handler(static fn () => true);
    $token = strtok(' ');
    restore_error_handler();
    return $token;
}

/** Everything that could go from one request to the next. */
function seen(): array
{
    $handler = set_error_handler(null);
    restore_error_handler();
    $thrown = set_exception_handler(null);
    restore_exception_handler();
    return ['get' => $_GET, 'post' => $_POST, 'cookie' => $_COOKIE, 'files' => $_FILES, 'request' => $_REQUEST,
        'uri' => $_SERVER['REQUEST_URI'], 'method' => $_SERVER['REQUEST_METHOD'], 'auth' => $_SERVER['PHP_AUTH_USER'] ?? null, 'added' => $_SERVER['ADDED'] ?? null,
        'custom' => $_SERVER['HTTP_X_CUSTOM'] ?? null, 'input' => file_get_contents('php://input'), 'session' => $_SESSION ?? null,
        'session_id' => session_id(), 'session_name' => session_name(), 'session_status' => session_status(),
        'precision' => ini_get('precision'), 'memory_limit' => ini_get('memory_limit'), 'level' => error_reporting(), 'time_limit' => ini_get('max_execution_time'),
        'zone' => date_default_timezone_get(), 'mb' => mb_internal_encoding(), 'substitute' => mb_substitute_character(), 'locale' => setlocale(LC_ALL, '0'), 'cwd' => getcwd(),
        'env' => [getenv('LEFT'), getenv('BOOTED')], 'umask' => umask(), 'buffers' => ob_get_level(), 'headers' => headers_list(), 'status' => http_response_code(),
        'handlers' => [is_object($handler), is_object($thrown)], 'last_error' => error_get_last(), 'token' => token(), 'libxml' => libxml_use_internal_errors(),
        'include_path' => get_include_path(), 'ignore_abort' => ignore_user_abort(), 'connection' => connection_status(), 'rewriting' => ini_get('url_rewriter.tags')];
}

function leave(): void
{
    $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_REQUEST['left'] = $_SERVER['ADDED'] = $_FILES['left'] = 1;
    session_save_path(sys_get_temp_dir());
    session_name('LEFT');
    session_id('left');
    session_start();
    $_SESSION['left'] = 1;
    ini_set('precision', '3');
    ini_set('memory_limit', '99M');
    error_reporting(0);
    set_time_limit(77);
    date_default_timezone_set('Asia/Tokyo');
    mb_internal_encoding('SJIS');
    mb_substitute_character(0x3013);
    setlocale(LC_ALL, 'C.UTF-8', 'en_US.UTF-8', 'POSIX');
    chdir('/tmp');
    putenv('LEFT=1');
    putenv('BOOTED=no');
    umask(0);
    ob_start();
    ob_start(fn ($text) => $text);
    header('X-Left: 1');
    setcookie('left', '1');
    http_response_code(418);
    set_error_handler(fn () => true);
    set_error_handler(fn () => true);
    set_exception_handler(fn () => true);
    @trigger_error('left');
    strtok('left behind', ' ');
    libxml_use_internal_errors(true);
    set_include_path('/left');
    ignore_user_abort(true);
    mt_srand(1);
    header_register_callback(fn () => header('X-Callback: 1'));
}

class Loud
{
    public function __destruct() { echo 'destroyed'; }
}

$handler = function () use ($booted) {
    $booted->count++;
    switch ($_GET['case'] ?? '') {
        case '': echo "hello $booted->count"; return;
        case 'boot': echo json_encode($booted); return;
        case 'seen': echo json_encode(seen()); return;
        case 'leave': leave(); echo 'left'; return;
        case 'leave-restored': restore_error_handler(); restore_exception_handler(); ini_restore('precision'); echo 'left'; return;
        case 'leave-and-fail': leave(); throw new \Exception('left');
        case 'session-from': session_start(); echo $_SESSION['from']; return;
        case 'session-otherwise': keep_sessions_by('Resident\\read_otherwise'); return;
        case 'random': if (isset($_GET['seed'])) { mt_srand((int) $_GET['seed']); } echo mt_rand(); return;
        case 'exit': echo 'before'; register_shutdown_function(fn () => print(' shutdown')); exit;
        case 'exit-message': exit('message');
        case 'exit-deep': array_map(function () { foreach ([1] as $_) { try { exit('deep'); } finally { echo 'never'; } } }, [1]); return;
        case 'exit-shutdown': register_shutdown_function(fn () => exit('one')); register_shutdown_function(fn () => print('two')); return;
        case 'throw': throw new \RuntimeException('no handler catches me');
        case 'throw-late': ob_end_flush(); echo 'sent'; flush(); throw new \RuntimeException('too late');
        case 'throw-shutdown': register_shutdown_function(function () { throw new \RuntimeException('thrown at the end'); }); echo 'ok'; return;
        case 'throw-output': ob_start(function () { throw new \RuntimeException('thrown in a callback'); }); echo 'x'; return;
        case 'throw-destructor': new class { public function __destruct() { throw new \RuntimeException('thrown in a destructor'); } }; return;
        case 'error-handler': set_error_handler(fn ($n, $text) => print("handled: $text;")); trigger_error('one', E_USER_WARNING); return;
        case 'trigger': trigger_error('two', E_USER_WARNING); return;
        case 'exception-handler': set_exception_handler(function ($thrown) { http_response_code(503); echo 'handled ', $thrown->getMessage(); }); throw new \Exception('mine');
        case 'fatal': register_shutdown_function(fn () => print('after: ' . (error_get_last()['type'] ?? 0))); eval('class Loud {} class Loud {}'); return;
        case 'memory': ini_set('memory_limit', '12M'); $all = []; while (true) { $all[] = str_repeat('x', 100000); }
        case 'time': set_time_limit(1); while (true) { }
        case 'fatal-shutdown': register_shutdown_function(function () { eval('class Twice {} class Twice {}'); }); echo 'ok'; return;
        case 'destructor': $loud = new Loud; echo 'body '; return;
        case 'fork': $child = pcntl_fork(); if ($child === 0) { if (isset($_GET['exit'])) { exit(3); } if (isset($_GET['fatal'])) { eval('class Loud {} class Loud {}'); } echo 'child'; return; } pcntl_waitpid($child, $status); echo 'parent ', pcntl_wexitstatus($status); return;
        case 'kill': posix_kill(getmypid(), 9);
        case 'recycle': exit(0);
        case 'nested': try { tutti_handle_request(fn () => 1); } catch (\Error $error) { echo $error->getMessage(); } return;
        case 'nobody': return;
        case 'headers': header('X-One: 1'); header('X-Two: 2'); http_response_code(202); header_register_callback(fn () => header('X-Callback: yes')); echo json_encode([getallheaders(), headers_list()]); return;
        case 'flush': ob_end_flush(); foreach ([1, 2, 3] as $part) { echo "part $part\n"; flush(); } return;
        case 'large': for ($i = 0; $i < 64; $i++) { echo str_repeat('x', 16384); } return;
        case 'finish': echo 'answer'; $first = fastcgi_finish_request(); echo 'this has no reader'; file_put_contents($_GET['file'], json_encode([$first, fastcgi_finish_request(), $_SERVER['REQUEST_URI'], getenv('REQUEST_METHOD'), getallheaders()['X-Late']])); return;
        case 'abort': ignore_user_abort(isset($_GET['ignore'])); register_shutdown_function(fn () => file_put_contents($_GET['file'], json_encode([connection_aborted(), connection_status()]))); for ($i = 0; $i < 1000; $i++) { echo str_repeat('x', 1000); flush(); } return;
        case 'upload': echo json_encode(array_map(fn ($file) => $file + ['text' => file_get_contents($file['tmp_name']), 'ok' => is_uploaded_file($file['tmp_name'])], $_FILES)); return;
        case 'body': echo file_get_contents('php://input'); return;
        case 'body-held': static $held; $held[] = fopen('php://input', 'r'); echo implode(',', array_map(fn ($stream) => is_resource($stream) ? fread($stream, 100) : 'closed', $held)); return;
        case 'session': session_save_path($_GET['path'] ?? ''); session_start(); $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1; echo $_SESSION['count']; return;
        case 'session-unstarted': echo json_encode([$_SESSION ?? null, session_id()]); return;
        case 'session-exit': session_save_path($_GET['path']); session_start(); $_SESSION['count'] = ($_SESSION['count'] ?? 0) + 10; exit;
        case 'filter': echo json_encode([filter_input(INPUT_GET, 'a'), filter_input(INPUT_SERVER, 'REQUEST_METHOD'), filter_has_var(INPUT_POST, 'b')]); return;
        case 'late-globals': echo json_encode(include __DIR__ . '/late.php'); return;
        case 'static': static $times = 0; echo ++$times; return;
        case 'global': echo json_encode($GLOBALS['left'] ?? null); $GLOBALS['left'] = 1; return;
        case 'included': echo json_encode((function () { include __DIR__ . '/late.php'; return array_keys(get_defined_vars()); })()), json_encode(isset($GLOBALS['late'])); return;
        case 'template': echo include $_GET['file']; return;
        case 'busy':
            $used = fn () => array_sum(array_map(fn ($which) => getrusage()["ru_{$which}time.tv_sec"] * 1000 + getrusage()["ru_{$which}time.tv_usec"] / 1000, ['u', 's']));
            for ($until = $used() + (int) $_GET['ms']; $used() < $until;) { }
            echo 'busy';
            return;
        case 'held': while (!file_exists($_GET['file'])) { usleep(1000); } echo 'released'; return;
        case 'peak': if (isset($_GET['use'])) { str_repeat('x', 8 << 20); } echo memory_get_peak_usage(); return;
        case 'memory-now': echo memory_get_usage(); return;
        case 'stat': clearstatcache(); echo json_encode(file_exists($_GET['file'])); return;
        case 'stat-cached': echo json_encode(file_exists($_GET['file'])); return;
        case 'reset': echo json_encode(opcache_reset()); return;
        case 'gz': ob_start('ob_gzhandler'); echo str_repeat('gz', 1000); return;
        case 'rewrite': output_add_rewrite_var('left', '1'); return;
        case 'last': $GLOBALS['booted_stop'] = true; echo 'last'; return;
        case 'interval': $GLOBALS['interval'] = true; echo 'asked'; return;
    }
    http_response_code(404);
};

while (tutti_handle_request($handler)) {
    if (isset($interval)) {
        unset($interval);
        header('X-Interval: 1');
        echo 'written between two requests';
        ob_start();
        echo 'and in a buffer';
    }
    if (isset($booted_stop)) {
        break;
    }
}
echo 'the loop is over';
