// A consumer of PgQ as its documentation describes one: next_batch(), get_batch_events(), send them on,
// finish_batch():
//
//	pgq CONNECTION QUEUE CONSUMER TARGET IN_FLIGHT POLL
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"peers/deliver"
)

type consumer struct {
	db          *pgx.Conn
	queue, name string
	sink        deliver.Sink
}

// Whether there was a batch.
func (c *consumer) consume(ctx context.Context) (bool, error) {
	var batch *int64
	if err := c.db.QueryRow(ctx, "SELECT pgq.next_batch($1, $2)", c.queue, c.name).Scan(&batch); err != nil {
		return false, err
	}
	if batch == nil {
		return false, nil
	}
	rows, err := c.db.Query(ctx, "SELECT ev_id::text, ev_data FROM pgq.get_batch_events($1)", *batch)
	if err != nil {
		return false, err
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[deliver.Event])
	if err != nil {
		return false, err
	}
	if len(events) > 0 {
		if err := c.sink.SendAll(ctx, events); err != nil {
			return false, err
		}
	}
	_, err = c.db.Exec(ctx, "SELECT pgq.finish_batch($1)", *batch)
	return true, err
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := pgx.Connect(ctx, os.Args[1])
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	inFlight, err := strconv.Atoi(os.Args[5])
	if err != nil {
		return err
	}
	poll, err := time.ParseDuration(os.Args[6])
	if err != nil {
		return err
	}
	c := consumer{db, os.Args[2], os.Args[3], deliver.To(os.Args[4], inFlight)}
	for ctx.Err() == nil {
		worked, err := c.consume(ctx)
		if err != nil {
			return err
		}
		if !worked {
			select {
			case <-ctx.Done():
			case <-time.After(poll):
			}
		}
	}
	return nil
}

func main() {
	if err := run(); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal("pgq: ", err)
	}
}
