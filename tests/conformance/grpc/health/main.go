// A server with nothing but gRPC's health service: "up" serves, "down" does not, "moody" serves while the file of -mood is there.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	port := flag.Int("port", 0, "port to listen on")
	mood := flag.String("mood", "", "file that says how it feels")
	flag.Parse()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		log.Fatal(err)
	}
	checks := health.NewServer()
	checks.SetServingStatus("up", grpc_health_v1.HealthCheckResponse_SERVING)
	checks.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	go func() {
		for ; ; time.Sleep(20 * time.Millisecond) {
			status := grpc_health_v1.HealthCheckResponse_NOT_SERVING
			if _, err := os.Stat(*mood); err == nil {
				status = grpc_health_v1.HealthCheckResponse_SERVING
			}
			checks.SetServingStatus("moody", status)
		}
	}()
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, checks)
	log.Fatal(server.Serve(listener))
}
