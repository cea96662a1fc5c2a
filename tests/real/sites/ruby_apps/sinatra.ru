# frozen_string_literal: true

# Sinatra: routes, a session, a template, an upload, JSON, errors, a streamed answer.
require 'json'
require 'sinatra/base'

class Site < Sinatra::Base
  set :environment, :production
  set :sessions, secret: 'only for this test, and long enough: ' + 'x' * 64
  set :erb, escape_html: true

  get('/') { erb '<h1><%= @greeting %></h1>', locals: {} }
  before { @greeting = 'Sinatra is up, ümlaut' }
  get('/hello/:name') { "Servus, #{params['name']} (#{params['from'] || 'nowhere'})" }
  get('/count') { "visit #{session[:count] = (session[:count] || 0) + 1}" }
  post('/form') { redirect to("/said/#{params['word']}") }
  get('/said/:word') { "you said #{params['word']}" }
  post('/upload') do
    file = params['file']
    "#{file[:tempfile].read.bytesize} bytes of #{file[:filename]} as #{file[:type]}"
  end
  put('/json') do
    content_type :json
    JSON.generate(JSON.parse(request.body.read).merge('seen' => 1))
  end
  get('/fails') { raise 'a fault of the page' }
  get('/stream') { stream { |out| 3.times { |i| out << "piece #{i + 1}\n" } } }
  get('/file') { send_file __FILE__, type: 'text/x-ruby' }
end

run Site
