<!doctype html>
<html lang="{{ app()->getLocale() }}"><head><meta charset="utf-8"><title>@yield('title') – {{ config('app.name') }}</title>
<meta name="csrf-token" content="{{ csrf_token() }}"></head>
<body>
@if (session('status'))<p class="status">{{ session('status') }}</p>@endif
@auth<form id="logout" method="post" action="/logout">@csrf<button>Leave, {{ auth()->user()->name }}</button></form>@endauth
@yield('content')
</body></html>
