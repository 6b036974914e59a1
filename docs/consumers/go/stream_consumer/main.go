// Books the orders of a Redis stream: each order once, however often its event comes.
//
// The events are those of a pgcourier sink of kind redis. Any number of these may run: they are the
// workers of one consumer group. SIGTERM ends it after the event at hand.
//
// Needs Go and the modules of go.mod. Run: go run ./stream_consumer
// Environment: REDIS_URL, DATABASE_URL, STREAM (events:orders.created), WORKER (the host's name),
// CLAIM_AFTER_MS (60000)
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

const consumer = "billing" // the group's name, and the consumer's in the inbox

var streamName = cmp.Or(os.Getenv("STREAM"), "events:orders.created")

// The change. It need not be idempotent.
func book(ctx context.Context, tx pgx.Tx, payload string) error {
	var order struct{ Order, Cents int64 }
	if err := json.Unmarshal([]byte(payload), &order); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO booking (order_id, cents) VALUES ($1, $2)", order.Order, order.Cents)
	return err
}

// Accepts the event and makes the change in one transaction: both, or neither.
func process(ctx context.Context, database *pgx.Conn, event map[string]any) error {
	return pgx.BeginFunc(ctx, database, func(tx pgx.Tx) error {
		var accepted bool
		err := tx.QueryRow(ctx, "SELECT courier_inbox.accept($1, $2)", consumer, event["id"]).Scan(&accepted)
		if err != nil {
			return err
		}
		if !accepted {
			log.Println("came again:", event["id"])
			return nil
		}
		return book(ctx, tx, fmt.Sprint(event["payload"]))
	})
}

// What some worker took long ago and has not acknowledged; or else what is new.
func nextEntries(ctx context.Context, stream *redis.Client, worker string, claimAfter time.Duration) ([]redis.XMessage, error) {
	left, _, err := stream.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: streamName, Group: consumer, Consumer: worker, MinIdle: claimAfter, Start: "0-0", Count: 100,
	}).Result()
	if err != nil || len(left) > 0 {
		return left, err
	}
	fresh, err := stream.XReadGroup(ctx, &redis.XReadGroupArgs{
		Streams: []string{streamName, ">"}, Group: consumer, Consumer: worker, Count: 100, Block: time.Second,
	}).Result()
	if errors.Is(err, redis.Nil) { // nothing came
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return fresh[0].Messages, nil
}

// Until SIGTERM, or until a connection is lost: then systemd or the like starts it again.
func consume(ctx, stopping context.Context) error {
	host, _ := os.Hostname()
	worker := cmp.Or(os.Getenv("WORKER"), host)                                     // another one for each process
	milliseconds, err := strconv.Atoi(cmp.Or(os.Getenv("CLAIM_AFTER_MS"), "60000")) // longer than an event takes
	if err != nil {
		return err
	}
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"))
	if err != nil {
		return err
	}
	stream := redis.NewClient(options)
	defer stream.Close()
	database, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer database.Close(ctx)
	err = stream.XGroupCreateMkStream(ctx, streamName, consumer, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") { // it exists
		return err
	}
	for stopping.Err() == nil {
		entries, err := nextEntries(ctx, stream, worker, time.Duration(milliseconds)*time.Millisecond)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if stopping.Err() != nil {
				break // the rest is claimed by another worker, or by the next start
			}
			if err := process(ctx, database, entry.Values); database.IsClosed() {
				return err
			} else if err != nil {
				log.Printf("%v comes again later: %v", entry.Values["id"], err)
			} else if err := stream.XAck(ctx, streamName, consumer, entry.ID).Err(); err != nil { // after the commit
				return err
			}
		}
	}
	return nil
}

func main() {
	stopping, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	if err := consume(context.Background(), stopping); err != nil {
		log.Fatal(err)
	}
}
