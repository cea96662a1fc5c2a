# frozen_string_literal: true

# Grape: parameters that are checked, an upload, JSON, errors, a streamed answer, a file.
require 'json'
require 'logger'
require 'rack/session/cookie'
require 'grape'

# The streamed body: Grape hands it on.
class Pieces
  def each
    3.times { |i| yield "piece #{i + 1}\n" }
  end
end

class Site < Grape::API
  content_type :html, 'text/html; charset=utf-8'
  content_type :json, 'application/json'
  content_type :txt, 'text/plain'
  default_format :txt

  helpers do
    def session = env['rack.session']
  end

  get('/', format: :html) do
    content_type 'text/html; charset=utf-8'
    'Grape is up, ümlaut'
  end
  params { requires :from, type: String }
  get('/hello/:name') { "Servus, #{params[:name]} (#{params[:from]})" }
  get('/count') { "visit #{session[:count] = (session[:count] || 0) + 1}" }
  post('/form') { redirect "/said/#{params[:word]}" }
  get('/said/:word') { "you said #{params[:word]}" }
  post('/upload') do
    status 200
    file = params[:file]
    "#{file[:tempfile].read.bytesize} bytes of #{file[:filename]} as #{file[:type]}"
  end
  put('/json') do
    content_type 'application/json'
    env['api.format'] = :json
    { text: params[:text], seen: 1 }
  end
  get('/stream') { stream Pieces.new }
  get('/file') { stream __FILE__ }
  get('/fails') { raise 'a fault of the page' }
end

use Rack::Session::Cookie, secret: 'only for this test, and long enough: ' + 'x' * 64
run Site
