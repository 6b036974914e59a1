// Package deliver sends events on: to Redis by go-redis, or as webhooks by net/http.
package deliver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Event is what arrives.
type Event struct {
	ID      string
	Payload []byte
}

// Sink takes events; Send from many goroutines.
type Sink interface {
	Send(ctx context.Context, event Event) error
	SendAll(ctx context.Context, events []Event) error
}

// To makes one for "redis:PORT" or "http:PORT" that has at most so many requests under way.
func To(target string, inFlight int) Sink {
	kind, port, _ := strings.Cut(target, ":")
	if kind == "redis" {
		return stream{redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = inFlight, inFlight
	return receiver{&http.Client{Transport: transport}, "http://127.0.0.1:" + port + "/1", inFlight}
}

type stream struct{ client *redis.Client }

func entry(event Event) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: "events", Values: []any{"id", event.ID, "payload", event.Payload}}
}

func (s stream) Send(ctx context.Context, event Event) error {
	return s.client.XAdd(ctx, entry(event)).Err()
}

func (s stream) SendAll(ctx context.Context, events []Event) error {
	_, err := s.client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for _, event := range events {
			pipeline.XAdd(ctx, entry(event))
		}
		return nil
	})
	return err
}

type receiver struct {
	client   *http.Client
	url      string
	inFlight int
}

func (r receiver) Send(ctx context.Context, event Event) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(event.Payload))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", event.ID)
	answer, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("HTTP %d", answer.StatusCode)
	}
	return nil
}

func (r receiver) SendAll(ctx context.Context, events []Event) error {
	waiting := make(chan Event)
	failures := make(chan error, r.inFlight)
	n := min(r.inFlight, len(events))
	for range n {
		go func() {
			var failure error
			for event := range waiting {
				if err := r.Send(ctx, event); err != nil {
					failure = err
				}
			}
			failures <- failure
		}()
	}
	for _, event := range events {
		waiting <- event
	}
	close(waiting)
	var failure error
	for range n {
		if err := <-failures; err != nil {
			failure = err
		}
	}
	return failure
}
