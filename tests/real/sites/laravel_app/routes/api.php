<?php

use App\Http\Requests\NoteRequest;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

Route::post('/echo', fn (Request $request) => response()->json(['sent' => $request->all(), 'method' => $request->method()], 201));
Route::post('/notes', fn (NoteRequest $request) => ['text' => $request->validated()['text']]);
