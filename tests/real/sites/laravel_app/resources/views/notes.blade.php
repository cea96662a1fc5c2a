@extends('layout')
@section('title', 'Notes')
@section('content')
<h1>Laravel is up, ümlaut</h1>
<p>visit {{ $visits }}</p>
<ul>@forelse ($notes as $note)<li><a href="{{ url('/notes/' . $note->id) }}">{{ $note->text }}</a> by {{ $note->author }}</li>@empty<li>no notes</li>@endforelse</ul>
@endsection
