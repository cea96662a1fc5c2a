@extends('layout')
@section('title', $note->text)
@section('content')
<p>{{ $note->text }}</p>
@if ($note->picture)<img src="/notes/{{ $note->id }}/picture">@endif
@auth<form id="delete" method="post" action="/notes/{{ $note->id }}">@csrf @method('delete')<button>Away</button></form>@endauth
@endsection
