@extends('layout')
@section('title', 'New')
@section('content')
@if ($errors->any())<ul class="errors">@foreach ($errors->all() as $error)<li>{{ $error }}</li>@endforeach</ul>@endif
<form id="note" method="post" action="/notes" enctype="multipart/form-data">@csrf
<textarea name="text">{{ old('text') }}</textarea><input type="file" name="picture"></form>
@endsection
