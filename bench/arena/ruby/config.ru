# frozen_string_literal: true

# The endpoints of HttpArena by Sinatra.
require 'json'
require 'sinatra/base'

# Serves the profiles of HTTP/1.1, HTTP/2 and HTTP/3 alike.
class Arena < Sinatra::Base
  ITEMS = JSON.parse(File.read(ENV.fetch('DATASET'))).freeze

  helpers do
    def text(body)
      content_type 'text/plain'
      body.to_s
    end

    def sum
      params['a'].to_i + params['b'].to_i
    end
  end

  get('/baseline11') { text(sum) }
  post('/baseline11') { text(sum + request.body.read.to_i) }
  get('/baseline2') { text(sum) }
  get('/pipeline') { text('ok') }

  get '/json/:count' do
    factor = params.fetch('m', 1).to_i
    items = ITEMS.first(params['count'].to_i).map { |item| item.merge('total' => item['price'] * item['quantity'] * factor) }
    content_type :json
    JSON.generate('items' => items, 'count' => items.size)
  end

  post '/upload' do
    received = 0
    while (part = request.body.read(65_536))
      received += part.bytesize
    end
    text(received)
  end
end

run Arena
