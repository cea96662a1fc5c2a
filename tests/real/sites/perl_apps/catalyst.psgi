# Catalyst: actions, an upload, JSON, writing piece by piece, a file as body, errors.
use strict;
use warnings;
use utf8;

package Site::Controller::Root {
    use Moose;
    use JSON::PP ();
    BEGIN { extends 'Catalyst::Controller' }
    __PACKAGE__->config(namespace => '');

    sub home : Path('/') Args(0) { my ($self, $c) = @_; $c->res->content_type('text/html; charset=utf-8'); $c->res->body('<!DOCTYPE html><title>Home</title><h1>Catalyst is up, ümlaut</h1><form method="post" action="/form"><input name="word" value="hello"><input type="submit" name="go" value="Go"></form>') }
    sub hello : Local Args(1) { my ($self, $c, $name) = @_; $c->res->content_type('text/plain; charset=utf-8'); $c->res->body("Servus, $name (" . ($c->req->params->{from} // 'nowhere') . ')') }
    sub count : Local { my ($self, $c) = @_; my $count = ($c->req->cookie('count') ? $c->req->cookie('count')->value : 0) + 1; $c->res->cookies->{count} = { value => $count }; $c->res->body("visit $count") }
    sub form : Local { my ($self, $c) = @_; $c->res->redirect($c->uri_for('/said', $c->req->body_params->{word})) }
    sub said : Local Args(1) { my ($self, $c, $word) = @_; $c->res->body("you said $word") }
    sub upload : Local { my ($self, $c) = @_; my $file = $c->req->upload('file'); $c->res->body($file->size . ' bytes of ' . $file->filename . ' as ' . $file->type) }
    sub json : Local { my ($self, $c) = @_; my $data = $c->req->body_data; $data->{seen} = 1; $c->res->content_type('application/json'); $c->res->body(JSON::PP::encode_json($data)) }
    sub fails : Local { die 'a fault of the page' }
    sub stream : Local { my ($self, $c) = @_; $c->res->content_type('text/plain'); $c->res->write("piece $_\n") for 1 .. 3 }
    sub file : Local { my ($self, $c) = @_; open my $file, '<:raw', "$ENV{SITE}/catalyst.psgi" or die $!; $c->res->content_type('text/x-perl'); $c->res->body($file) }
    sub default : Path { my ($self, $c) = @_; $c->res->status(404); $c->res->body('no such page') }
    $INC{'Site/Controller/Root.pm'} = __FILE__;
}

package Site {
    use Moose;
    use Catalyst::Runtime 5.80;
    extends 'Catalyst';
    $INC{'Site.pm'} = __FILE__;
    __PACKAGE__->config(name => 'Site', home => $ENV{SITE}, encoding => 'UTF-8', disable_component_resolution_regex_fallback => 1);
    __PACKAGE__->log(Catalyst::Log->new('error', 'fatal'));
    sub setup_components { my $class = shift; $class->components->{'Site::Controller::Root'} = $class->setup_component('Site::Controller::Root') }
    __PACKAGE__->setup;
}

package main;
Site->psgi_app;
