run(lambda do |env|
  env["rack.early_hints"]&.call("link" => "</a.css>; rel=preload; as=style")
  [200, {}, ["whole"]]
end)
