# Dancer2: routes, a session, a template, an upload, JSON, errors, a streamed answer.
package Site;
use strict;
use warnings;
use utf8;
use Dancer2;

set session => 'Simple';
set charset => 'UTF-8';
set views => "$ENV{SITE}/views";
set template => 'tiny';
set environment => 'test';

get '/' => sub { template 'home.tt', { greeting => 'Dancer2 is up, ümlaut' } };
get '/hello/:name' => sub { 'Servus, ' . route_parameters->get('name') . ' (' . (query_parameters->get('from') // 'nowhere') . ')' };
get '/count' => sub { my $count = (session('count') // 0) + 1; session count => $count; "visit $count" };
post '/form' => sub { redirect '/said/' . body_parameters->get('word') };
get '/said/:word' => sub { 'you said ' . route_parameters->get('word') };
post '/upload' => sub { my $file = upload('file'); length($file->content) . ' bytes of ' . $file->filename . ' as ' . $file->type };
put '/json' => sub { my $data = decode_json(request->body); $data->{seen} = 1; send_as JSON => $data };
get '/fails' => sub { die 'a fault of the page' };
get '/stream' => sub { delayed { flush; content "piece $_\n" for 1 .. 3; done } };
get '/file' => sub { send_file "$ENV{SITE}/dancer2.psgi", system_path => 1, content_type => 'text/x-perl' };

Site->to_app;
