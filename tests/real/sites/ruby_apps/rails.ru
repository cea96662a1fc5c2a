# frozen_string_literal: true

# Rails in one file: a controller with session, forms, upload, JSON, a live stream, Active Record on SQLite, and Action Cable.
require 'logger'
require 'rails'
require 'active_record/railtie'
require 'action_controller/railtie'
require 'action_cable/engine'

class Site < Rails::Application
  config.root = __dir__
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.consider_all_requests_local = false
  config.hosts.clear
  config.secret_key_base = 'only for this test, and long enough: ' + 'x' * 64
  config.logger = ActiveSupport::Logger.new($stderr)
  config.log_level = :warn
  # One form asks for a token.
  config.action_controller.default_protect_from_forgery = false
  # Rooms are in the process's memory.
  config.action_cable.cable = { 'adapter' => 'async' }
  config.action_cable.mount_path = '/cable'
end

ENV['DATABASE_URL'] = "sqlite3:#{File.join(__dir__, 'notes.sqlite3')}?pool=5"

class Note < ActiveRecord::Base
  validates :text, presence: true
end

module ApplicationCable
  class Connection < ActionCable::Connection::Base
    identified_by :name

    def connect
      self.name = request.params[:name]
      reject_unauthorized_connection if name.blank?
    end
  end

  class Channel < ActionCable::Channel::Base; end
end

class RoomChannel < ApplicationCable::Channel
  def subscribed
    stream_from "room #{params[:room]}"
  end

  def speak(data)
    note = Note.create!(text: data['text'])
    ActionCable.server.broadcast("room #{params[:room]}", { 'from' => connection.name, 'text' => note.text, 'number' => note.id })
  end
end

class PagesController < ActionController::Base
  protect_from_forgery with: :exception, only: :create
  PAGE = <<~PAGE
    <h1>Rails is up, ümlaut</h1>
    <form id="note" action="/notes" method="post">
    <input type="hidden" name="authenticity_token" value="<%= form_authenticity_token %>"><input name="text"></form>
    <ul><% Note.order(:id).each do |note| %><li><%= note.text %></li><% end %></ul>
  PAGE

  def home = render(inline: PAGE)
  def hello = render(plain: "Servus, #{params[:name]} (#{params[:from]})")
  def count = render(plain: "visit #{session[:count] = session[:count].to_i + 1}")
  def form = redirect_to("/said/#{params[:word]}")
  def said = render(plain: "you said #{params[:word]}")
  def create = redirect_to(Note.create!(text: params[:text]) && '/')
  def json = render(json: JSON.parse(request.raw_post).merge(seen: 1))
  def file = send_file(__FILE__, type: 'text/x-ruby')
  def fails = raise('a fault of the page')

  def upload
    file = params[:file]
    render plain: "#{file.read.bytesize} bytes of #{file.original_filename} as #{file.content_type}"
  end
end

class StreamsController < ActionController::Base
  include ActionController::Live

  def show
    3.times { |i| response.stream.write("piece #{i + 1}\n") }
  ensure
    response.stream.close
  end
end

Site.initialize!
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:notes, if_not_exists: true) { |table| table.text :text }
end
Site.routes.draw do
  root 'pages#home'
  get '/hello/:name' => 'pages#hello'
  get '/stream' => 'streams#show'
  %w[count file fails].each { |name| get "/#{name}" => "pages##{name}" }
  get '/said/:word' => 'pages#said'
  %w[form upload].each { |name| post "/#{name}" => "pages##{name}" }
  post '/notes' => 'pages#create'
  put '/json' => 'pages#json'
end

run Site
