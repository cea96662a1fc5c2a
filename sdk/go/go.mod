module tutti.internal/go

go 1.23
