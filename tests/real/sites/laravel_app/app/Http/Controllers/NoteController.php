<?php

namespace App\Http\Controllers;

use App\Http\Requests\NoteRequest;
use App\Models\Note;
use Illuminate\Http\Request;
use Illuminate\Routing\Controller;
use Illuminate\Support\Facades\Auth;
use Illuminate\Support\Facades\Storage;

class NoteController extends Controller
{
    public function index(Request $request)
    {
        $request->session()->increment('visits');
        return view('notes', ['notes' => Note::orderBy('id')->get(), 'visits' => $request->session()->get('visits')]);
    }

    public function store(NoteRequest $request)
    {
        $note = Note::create(['text' => $request->validated()['text'], 'author' => Auth::user()->name]);
        if ($request->hasFile('picture')) {
            $note->update(['picture' => $request->file('picture')->store('pictures')]);
        }
        return redirect()->route('notes')->with('status', "Note {$note->id} is kept.");
    }

    // By the model's name in the route: 404 where there is none.
    public function show(Note $note)
    {
        return view('note', ['note' => $note]);
    }

    public function picture(Note $note)
    {
        abort_unless((bool) $note->picture, 404, 'no picture');
        return Storage::response($note->picture);
    }

    public function login(Request $request)
    {
        $given = $request->validate(['email' => 'required|email', 'password' => 'required']);
        if (!Auth::attempt($given)) {
            return back()->withErrors(['email' => 'These are not the right words.'])->onlyInput('email');
        }
        $request->session()->regenerate();
        return redirect()->intended('/');
    }

    public function logout(Request $request)
    {
        Auth::logout();
        $request->session()->invalidate();
        $request->session()->regenerateToken();
        return redirect('/');
    }
}
