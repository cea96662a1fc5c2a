# frozen_string_literal: true

# A page by Rails: router, controller, a template with a list, the usual middleware.
require 'logger'
require 'rails'
require 'action_controller/railtie'
require 'action_view/railtie'

class Site < Rails::Application
  config.root = __dir__
  config.load_defaults Rails::VERSION::STRING.to_f
  config.eager_load = true
  config.consider_all_requests_local = false
  config.hosts.clear
  config.secret_key_base = 'x' * 64
  config.logger = Logger.new(IO::NULL)
  config.log_level = :error
end

class PagesController < ActionController::Base
  PAGE = '<h1><%= @title %></h1><ul><% @people.each do |person| %><li><%= link_to person, "/people/#{person}" %></li><% end %></ul>'

  def show
    @title = 'People & places'
    @people = (1..20).map { |number| "Person <#{number}>" }
    render inline: PAGE
  end
end

Site.initialize!
Site.routes.draw { root 'pages#show' }
run Site
