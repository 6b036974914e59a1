// River with one worker that sends the job's arguments on:
//
//	river CONNECTION setup
//	river CONNECTION TARGET MAX_WORKERS FETCH_COOLDOWN
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"peers/deliver"
)

type event struct{}

func (event) Kind() string { return "deliver" }

type worker struct {
	river.WorkerDefaults[event]
	sink deliver.Sink
}

func (w *worker) Work(ctx context.Context, job *river.Job[event]) error {
	return w.sink.Send(ctx, deliver.Event{ID: strconv.FormatInt(job.ID, 10), Payload: job.EncodedArgs})
}

func setup(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA river"); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: "river"})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func work(ctx context.Context, pool *pgxpool.Pool, target string, maxWorkers int, cooldown time.Duration) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{sink: deliver.To(target, maxWorkers)})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:        "river",
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: maxWorkers}},
		Workers:       workers,
		FetchCooldown: cooldown,
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx))
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Args[1])
	if err != nil {
		return err
	}
	defer pool.Close()
	if os.Args[2] == "setup" {
		return setup(ctx, pool)
	}
	maxWorkers, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return err
	}
	cooldown, err := time.ParseDuration(os.Args[4])
	if err != nil {
		return err
	}
	return work(ctx, pool, os.Args[2], maxWorkers, cooldown)
}

func main() {
	if err := run(); err != nil {
		log.Fatal("river: ", err)
	}
}
