module seen

go 1.23

require unit.nginx.org/go v0.0.0

// What an application written for NGINX Unit needs to run on Tutti.
replace unit.nginx.org/go => ../../../../sdk/go
