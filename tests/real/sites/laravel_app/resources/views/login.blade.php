@extends('layout')
@section('title', 'Log in')
@section('content')
@error('email')<p class="error">{{ $message }}</p>@enderror
<form id="login" method="post" action="/login">@csrf
<input name="email" value="{{ old('email') }}"><input type="password" name="password"></form>
@endsection
