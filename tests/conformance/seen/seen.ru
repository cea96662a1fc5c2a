# Tells what an application sees of a request, as the ones beside it do in their languages.
require 'json'

run lambda { |env|
  fields = env.select { |name, _| name.start_with?('HTTP_') }.to_h { |name, value| [name[5..].downcase.tr('_', '-'), value] }
  seen = { uri: env['REQUEST_URI'], path: env['PATH_INFO'], query: env['QUERY_STRING'], fields: fields }
  [200, { 'content-type' => 'application/json' }, [JSON.generate(seen)]]
}
