# Mojolicious in its PSGI mode: routes, templates, the signed session, an upload, JSON, content made piece by piece, errors.
use strict;
use warnings;
use Mojolicious::Lite -signatures;
use utf8;

app->secrets(['for the test']);
app->mode('production');
app->log->level('error');

get '/' => 'home';
get '/hello/:name' => sub ($c) { $c->render(text => 'Servus, ' . $c->param('name') . ' (' . ($c->param('from') // 'nowhere') . ')') };
get '/count' => sub ($c) { $c->session->{count}++; $c->render(text => 'visit ' . $c->session->{count}) };
post '/form' => sub ($c) { $c->redirect_to('/said/' . $c->param('word')) };
get '/said/:word' => sub ($c) { $c->render(text => 'you said ' . $c->param('word')) };
post '/upload' => sub ($c) { my $file = $c->req->upload('file'); $c->render(text => $file->size . ' bytes of ' . $file->filename . ' as ' . $file->headers->content_type) };
put '/json' => sub ($c) { my $data = $c->req->json; $data->{seen} = 1; $c->render(json => $data) };
get '/fails' => sub ($c) { die 'a fault of the page' };
get '/stream' => sub ($c) {
    $c->res->headers->content_type('text/plain')->content_length(24);
    $c->write("piece 1\n" => sub ($c, @) { $c->write("piece 2\n" => sub ($c, @) { $c->write("piece 3\n") }) });
};
get '/file' => sub ($c) { $c->reply->asset(Mojo::Asset::File->new(path => "$ENV{SITE}/mojolicious.psgi")) };

app->start;

__DATA__
@@ home.html.ep
<!DOCTYPE html><title>Home</title><h1>Mojolicious is up, ümlaut</h1>
<form method="post" action="/form"><input name="word" value="hello"><input type="submit" name="go" value="Go"></form>
