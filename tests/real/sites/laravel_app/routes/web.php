<?php

use App\Http\Controllers\NoteController;
use Illuminate\Support\Facades\App;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Route;
use Illuminate\Support\Facades\View;

Route::get('/', [NoteController::class, 'index'])->name('notes');
Route::view('/login', 'login')->name('login');
Route::post('/login', [NoteController::class, 'login']);
Route::get('/notes/{note}', [NoteController::class, 'show']);
Route::get('/notes/{note}/picture', [NoteController::class, 'picture']);
Route::middleware('auth')->group(function () {
    Route::view('/new', 'new');
    Route::post('/notes', [NoteController::class, 'store']);
    Route::post('/logout', [NoteController::class, 'logout']);
    Route::delete('/notes/{note}', fn (\App\Models\Note $note) => tap(redirect('/')->with('status', 'Gone.'), fn () => $note->delete()));
});

// Changes of the application that are to go with the request.
Route::get('/leave', function () {
    config(['app.left' => 'left']);
    app()->instance('left', 'left');
    App::setLocale('de');
    View::share('left', 'left');
    Route::get('/left', fn () => 'left');
    putenv('LEFT=left');
    $_SERVER['LEFT'] = 'left';
    return 'left ' . __('validation.required', ['attribute' => 'x']);
});
Route::get('/seen', fn () => [
    'config' => config('app.left'), 'bound' => app()->bound('left'), 'locale' => App::getLocale(), 'shared' => View::shared('left'),
    'env' => getenv('LEFT'), 'server' => $_SERVER['LEFT'] ?? null, 'path' => request()->path(), 'user' => Auth::user()?->name,
]);
Route::get('/opcache', fn () => array_intersect_key(opcache_get_status(false), ['opcache_enabled' => 1]) + opcache_get_status(false)['opcache_statistics']);
Route::get('/stream', fn () => response()->streamDownload(function () {
    foreach (range(1, 1000) as $number) {
        echo "$number\n";
    }
}, 'numbers.txt', ['Content-Type' => 'text/plain']));
Route::get('/fails', fn () => throw new RuntimeException('on purpose'));
Route::get('/forbidden', fn () => abort(403, 'not for you'));
Route::get('/exit', fn () => exit('the end'));
