@extends('layout')
@section('title', 'Nothing here')
@section('content')<p>There is nothing at {{ request()->path() }}.</p>@endsection
