require_relative 'shop'
run ->(environment) { [200, {'content-type' => 'text/plain'}, [Shop.item(environment['PATH_INFO'].split('/').last.to_i)]] }
