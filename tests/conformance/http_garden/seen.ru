# Tells which request an application is given.
require 'json'

run lambda { |env|
  body = (env['rack.input']&.read || '').b.force_encoding('ISO-8859-1').encode('UTF-8')
  seen = { stamp: env['HTTP_X_ROUTER'] || '', method: env['REQUEST_METHOD'], target: env['REQUEST_URI'], body: body }
  [200, { 'content-type' => 'application/json' }, [JSON.generate(seen) + "\n"]]
}
