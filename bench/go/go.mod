module tutti.internal/bench

go 1.23

require unit.nginx.org/go v0.0.0

replace unit.nginx.org/go => ../../sdk/go
